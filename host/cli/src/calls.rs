//! `operation-gateway op`, `key` and `policy preview`: what callers of a gateway do with its API, from the command line.
//!
//! On a terminal they print for people, elsewhere JSON: one document for one thing, one line for each of several.

mod body;
mod connection;
mod key;
mod operation;
mod output;
mod print;

use body::read_body;
use clap::Args;
pub use connection::Connection;
use gateway_domain::time::EpochMs;
use gateway_service::process;
pub use key::KeyCommand;
pub use operation::OpCommand;
use output::CallError;
pub use output::Output;
use std::path::PathBuf;
use std::process::ExitCode;

/// Evaluates the policy without an operation.
#[derive(Debug, Args)]
pub struct Preview {
    /// The body of `POST /v1/policy/preview`, JSON; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

fn run(command: impl Future<Output = Result<(), CallError>>) -> ExitCode {
    process::run(async { command.await.map(|()| ExitCode::SUCCESS) }, CallError::exit_code)
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
