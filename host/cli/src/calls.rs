//! `operation-gateway op`, `key` and `policy preview`: what callers of a gateway do with its API, from the command line.
//!
//! On a terminal they print for people, elsewhere JSON: one document for one thing, one line for each of several.

mod connection;
mod key;
mod operation;
mod print;

use crate::{EXIT_FAILED, EXIT_UNCHECKED, Fault};
use clap::{Args, Subcommand};
pub use connection::Connection;
use connection::{CLIENT_ID, Caller};
use gateway_client::{Error, Gateway, Page};
use gateway_domain::time::EpochMs;
use gateway_service::output;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit codes, for help texts.
const EXIT_CODES: &str = "Exit code 0: done. 1: the gateway refuses, or the operation failed. 2: the command cannot be carried out. 3: the time to \
                          wait is over. 4: the gateway does not answer.";

/// Exit code when the time to wait is over.
const EXIT_STILL_WAITING: u8 = 3;

/// Exit code when the gateway does not answer.
const EXIT_NO_ANSWER: u8 = 4;

/// Largest body that is read from a file.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Entries of a list that are asked for at once.
const PAGE: u32 = 100;

/// How results are printed.
#[derive(Debug, Args)]
pub struct Output {
    /// Print JSON also on a terminal
    #[arg(long)]
    json: bool,
    /// Print only the operation's id, the key's name, or the decision of a preview
    #[arg(long, conflicts_with = "json")]
    brief: bool,
}

/// What is printed of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    ForPeople,
    Json,
    /// One word, for scripts.
    Brief,
}

impl Output {
    fn form(&self) -> Form {
        match self {
            Self { brief: true, .. } => Form::Brief,
            Self { json: true, .. } => Form::Json,
            Self { .. } if output::is_terminal() => Form::ForPeople,
            Self { .. } => Form::Json,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum OpCommand {
    /// Submit a payment
    #[command(after_help = EXIT_CODES)]
    Submit(operation::Submit),
    /// Show an operation
    #[command(after_help = EXIT_CODES)]
    Show(operation::Show),
    /// List operations, newest first
    #[command(after_help = EXIT_CODES)]
    List(operation::List),
    /// Print what happens to operations, until interrupted
    #[command(after_help = EXIT_CODES)]
    Watch(operation::Watch),
    /// Approve an operation, signed with a key if one is given
    #[command(after_help = EXIT_CODES)]
    Approve(operation::Decide),
    /// Reject an operation that is not admitted yet
    #[command(after_help = EXIT_CODES)]
    Reject {
        /// The reason, which becomes part of the evidence
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        decide: operation::Decide,
    },
    /// Abort a change of a key that is admitted, or have it do without nodes that are lost
    #[command(after_help = EXIT_CODES)]
    Abort {
        /// The reason, which becomes part of the evidence
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The receivers of new shares that are lost; none before all have stored theirs
        #[arg(long, value_name = "N,...", value_delimiter = ',')]
        lost: Vec<u16>,
        #[command(flatten)]
        decide: operation::Decide,
    },
    /// Cancel what you submitted, before it is admitted
    #[command(after_help = EXIT_CODES)]
    Cancel {
        /// The reason, which becomes part of the evidence
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        target: operation::Target,
    },
    /// Have the nodes sign, or change their shares
    #[command(after_help = EXIT_CODES)]
    Execute(operation::Target),
    /// Publish the result of an operation
    #[command(after_help = EXIT_CODES)]
    Publish(operation::Target),
    /// Write an operation's evidence to files, for `evidence verify`
    #[command(after_help = EXIT_CODES)]
    Evidence {
        /// The file; further pages get a number before the extension
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        #[command(flatten)]
        target: operation::Target,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Submit the creation of a key
    #[command(after_help = EXIT_CODES)]
    Create(key::Body),
    /// Show a key
    #[command(after_help = EXIT_CODES)]
    Show(key::Named),
    /// List keys, newest first
    #[command(after_help = EXIT_CODES)]
    List(key::List),
    /// Submit a signature by a key
    #[command(after_help = EXIT_CODES)]
    Sign(key::Change),
    /// Submit new shares for the same holders
    #[command(after_help = EXIT_CODES)]
    Refresh(key::Change),
    /// Submit new shares for other holders
    #[command(after_help = EXIT_CODES)]
    Reshare(key::Change),
    /// Submit a new key in the place of this one
    #[command(after_help = EXIT_CODES)]
    Rotate(key::Change),
    /// Submit the rebuilding of a lost share
    #[command(after_help = EXIT_CODES)]
    Recover(key::Change),
}

/// Evaluates the policy without an operation.
#[derive(Debug, Args)]
pub struct Preview {
    /// The body of `POST /v1/policy/preview`, JSON; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Gateway(#[from] Error),
    #[error("the operation failed with `{code}`: {message}")]
    Failed { code: String, message: String },
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Other(#[from] Fault),
}

impl CallError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::Gateway(Error::Refused(_)) | Self::Failed { .. } => EXIT_FAILED,
            Self::Gateway(Error::StillWaiting { .. }) => EXIT_STILL_WAITING,
            Self::Gateway(Error::NoAnswer(_)) => EXIT_NO_ANSWER,
            Self::Gateway(Error::Malformed(_) | Error::Unusable(_))
            | Self::Unusable(_)
            | Self::Io(_)
            | Self::Other(_) => EXIT_UNCHECKED,
        }
    }
}

fn run(command: impl Future<Output = Result<(), CallError>>) -> ExitCode {
    crate::run(async { command.await.map(|()| ExitCode::SUCCESS) }, CallError::exit_code)
}

/// Runs a command on operations.
#[must_use]
pub fn run_op(command: &OpCommand, now: EpochMs) -> ExitCode {
    run(operation::run(command, now))
}

/// Runs a command on keys.
#[must_use]
pub fn run_key(command: &KeyCommand) -> ExitCode {
    run(key::run(command))
}

/// Evaluates the policy without an operation.
#[must_use]
pub fn run_preview(Preview { file, connection }: &Preview) -> ExitCode {
    run(async {
        let (gateway, _) = connection.open()?;
        let outcome = gateway.preview(&read_body(file)?).await?;
        print::preview(&outcome, connection.output.form())
    })
}

/// What is submitted, from a file. It may leave out its `client`, which is then the caller.
async fn submission(file: &Path, gateway: &Gateway, caller: &Caller) -> Result<Value, CallError> {
    let mut body = read_body(file)?;
    if let Some(members) = body.as_object_mut()
        && !members.contains_key("client")
    {
        members.insert("client".to_owned(), client(gateway, caller).await?);
    }
    Ok(body)
}

/// The caller, as a body names it: whom the gateway takes it for.
async fn client(gateway: &Gateway, caller: &Caller) -> Result<Value, CallError> {
    let known = gateway.whoami().await?.identity;
    Ok(match known {
        Some(who) => json!({
            "client_id": who.client_id, "subject_id": who.subject_id, "roles": [], "scopes": [], "tenant": who.tenant,
        }),
        None => json!({
            "client_id": CLIENT_ID, "subject_id": caller.subject.as_deref().unwrap_or(CLIENT_ID), "roles": [], "scopes": [],
        }),
    })
}

/// A JSON body from a file, or from standard input.
fn read_body(path: &Path) -> Result<Value, CallError> {
    let mut text = Vec::new();
    let unusable = |why: String| CallError::Unusable(format!("`{}` {why}", path.display()));
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().take(BODY_BYTES_MAX).read_to_end(&mut text),
        _ => File::open(path).and_then(|file| file.take(BODY_BYTES_MAX).read_to_end(&mut text)),
    };
    read.map_err(|error| unusable(format!("cannot be read: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| unusable(format!("is not JSON: {error}")))
}

/// The first entries of a list, at most `limit`. `page` asks for those after a cursor.
async fn first<T>(
    limit: usize,
    page: impl AsyncFn(Option<String>) -> Result<Page<T>, Error>,
) -> Result<Vec<T>, CallError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    while all.len() < limit {
        let Page { items, next_cursor } = page(cursor).await?;
        all.extend(items);
        cursor = next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    all.truncate(limit);
    Ok(all)
}
