//! `operation-gateway key`.

use super::body::{PAGE, first, submission};
use super::connection::Connection;
use super::output::{CallError, EXIT_CODES};
use super::print;
use clap::{Args, Subcommand};
use gateway_client::Filter;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Submit the creation of a key
    #[command(after_help = EXIT_CODES)]
    Create(Body),
    /// Show a key
    #[command(after_help = EXIT_CODES)]
    Show(Named),
    /// List keys, newest first
    #[command(after_help = EXIT_CODES)]
    List(List),
    /// Submit a signature by a key
    #[command(after_help = EXIT_CODES)]
    Sign(Change),
    /// Submit new shares for the same holders
    #[command(after_help = EXIT_CODES)]
    Refresh(Change),
    /// Submit new shares for other holders
    #[command(after_help = EXIT_CODES)]
    Reshare(Change),
    /// Submit a new key in the place of this one
    #[command(after_help = EXIT_CODES)]
    Rotate(Change),
    /// Submit the rebuilding of a lost share
    #[command(after_help = EXIT_CODES)]
    Recover(Change),
}

/// A body for the gateway.
#[derive(Debug, Args)]
pub struct Body {
    /// The body of `POST /v1/custody/keys`, JSON, in which `client` may be left out; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

/// A key.
#[derive(Debug, Args)]
pub struct Named {
    /// The key's name
    #[arg(value_name = "KEY")]
    key_ref: String,
    #[command(flatten)]
    connection: Connection,
}

/// What is submitted on a key.
#[derive(Debug, Args)]
pub struct Change {
    /// The key's name
    #[arg(value_name = "KEY")]
    key_ref: String,
    /// The body of the request, JSON, in which `client` may be left out; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

/// Which keys are listed.
#[derive(Debug, Args)]
pub struct List {
    /// Only keys in this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// The most keys that are listed
    #[arg(long, value_name = "KEYS", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(command: &KeyCommand) -> Result<(), CallError> {
    let (change, action) = match command {
        KeyCommand::Create(Body { file, connection }) => {
            let (gateway, caller) = connection.open()?;
            let body = submission(file, &gateway, &caller).await?;
            let operation = gateway.submit_to("/v1/custody/keys", &body).await?;
            return print::operation(&operation, connection.output.form());
        }
        KeyCommand::Show(Named { key_ref, connection }) => {
            let (gateway, _) = connection.open()?;
            return print::key(&gateway.key(key_ref).await?, connection.output.form());
        }
        KeyCommand::List(list) => return show_list(list).await,
        KeyCommand::Sign(change) => (change, "sign"),
        KeyCommand::Refresh(change) => (change, "refresh"),
        KeyCommand::Reshare(change) => (change, "reshare"),
        KeyCommand::Rotate(change) => (change, "rotate"),
        KeyCommand::Recover(change) => (change, "recover"),
    };
    let (gateway, caller) = change.connection.open()?;
    let body = submission(&change.file, &gateway, &caller).await?;
    let operation = gateway.submit_on_key(&change.key_ref, action, &body).await?;
    print::operation(&operation, change.connection.output.form())
}

async fn show_list(List { state, limit, connection }: &List) -> Result<(), CallError> {
    let (gateway, _) = connection.open()?;
    let filter = Filter { state: state.clone(), ..Filter::default() };
    let page = async |cursor: Option<String>| gateway.keys(&filter, PAGE, cursor.as_deref()).await;
    print::keys(&first(*limit, page).await?, connection.output.form())
}
