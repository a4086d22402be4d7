//! Looking back at what policies decided: `decisions export`.
//!
//! It reads the store of a gateway that may be running, and changes nothing.

mod export;
mod lines;

use crate::settings::Settings;
use clap::{Arg, ArgMatches, Command, value_parser};
use gateway_engine::Unavailable;
use gateway_store::{Cursor, Decisions, OpenError};
use std::io::Write;
use std::process::ExitCode;

/// Something differs, or the command failed.
const EXIT_DIFFERS: u8 = 1;
/// A command on decision records.
#[derive(Debug)]
pub(crate) enum Records {
    Export { after: Cursor, n_max: usize },
}

/// Why a command could not be carried out: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordsError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("the answer cannot be written")]
    Output(#[from] std::io::Error),
}

/// The commands as the command line has them.
pub(crate) fn commands() -> [Command; 1] {
    let decisions = Command::new("decisions")
        .about("What policies decided")
        .subcommand_required(true)
        .subcommand(export_command());
    [decisions]
}

fn export_command() -> Command {
    Command::new("export")
        .about("Print every decision on record, one JSON object a line")
        .arg(
            option("after", "CURSOR", "Only what follows this `cursor` of an earlier line")
                .value_parser(value_parser!(Cursor)),
        )
        .arg(option("limit", "LINES", "At most so many").value_parser(value_parser!(usize)))
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// The command that these matches name, if it is one of these.
pub(crate) fn parsed(matches: &ArgMatches) -> Option<Records> {
    let (group, inner) = matches.subcommand()?;
    let (name, leaf) = inner.subcommand()?;
    match (group, name) {
        ("decisions", "export") => Some(Records::Export {
            after: leaf.get_one("after").copied().unwrap_or_default(),
            n_max: leaf.get_one("limit").copied().unwrap_or(usize::MAX),
        }),
        _ => None,
    }
}

/// Carries a command out, printing to `out`.
pub(crate) async fn run(
    records: &Records,
    settings: &Settings,
    out: &mut (dyn Write + Send),
) -> Result<ExitCode, RecordsError> {
    let decisions = Decisions::open(&settings.database_url).await?;
    let done = match records {
        Records::Export { after, n_max } => export::run(&decisions, *after, *n_max, out).await,
    };
    decisions.close().await;
    done
}

/// As [`run`], for the process: what went wrong is one line on standard error.
pub(crate) fn main(records: &Records, settings: &Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(records, settings, &mut std::io::stdout())),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(code) => code,
        // Whoever reads has read enough.
        Err(RecordsError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => crate::complain(&[crate::compose::chain(&error)], EXIT_DIFFERS),
    }
}
