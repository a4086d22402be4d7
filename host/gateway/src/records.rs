//! Looking back at what policies decided: `decisions export`, `policy replay`, `policy impact`.
//!
//! All three read the store of a gateway that may be running, and change nothing.

pub(crate) mod bundle;
mod export;
mod impact;
mod lines;
mod replay;
pub(crate) mod rerun;

use crate::settings::Settings;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use gateway_domain::ids::OperationId;
use gateway_engine::Unavailable;
use gateway_store::{Cursor, Decisions, OpenError};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Something differs, or the command failed.
const EXIT_DIFFERS: u8 = 1;
/// Nothing can be said: the bundle, or the record, is not at hand.
const EXIT_UNCHECKED: u8 = 2;

/// A command on decision records.
#[derive(Debug)]
pub(crate) enum Records {
    Export { after: Cursor, n_max: usize },
    Replay { which: Which, bundle: Option<PathBuf> },
    Impact { candidate: PathBuf, n_last: Option<usize>, json: bool, unsigned: bool },
}

/// Which decisions are re-run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Operation { id: OperationId, seq: Option<u64> },
    Refusal(u64),
    Preview(u64),
}

/// Why a command could not be carried out: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordsError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Bundle(#[from] bundle::BundleFault),
    #[error("there is no such decision on record")]
    NoSuchDecision,
    #[error("the answer cannot be written")]
    Output(#[from] std::io::Error),
    #[error("the policy engine cannot start")]
    Engine(#[from] gateway_policy::EngineError),
    #[error("the answer has no JSON form")]
    Json(#[from] serde_json::Error),
}

impl RecordsError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchDecision | Self::Bundle(_) => EXIT_UNCHECKED,
            Self::Open(_) | Self::Unavailable(_) | Self::Output(_) | Self::Engine(_) | Self::Json(_) => {
                EXIT_DIFFERS
            }
        }
    }
}

/// The commands as the command line has them; `with_settings` lets one take the gateway's settings too.
pub(crate) fn commands(with_settings: fn(Command) -> Command) -> [Command; 2] {
    let decisions = Command::new("decisions")
        .about("What policies decided")
        .subcommand_required(true)
        .subcommand(with_settings(export_command()));
    let policy = Command::new("policy")
        .about("What policies would decide")
        .subcommand_required(true)
        .subcommand(with_settings(replay_command()))
        .subcommand(with_settings(impact_command()));
    [decisions, policy]
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

fn replay_command() -> Command {
    Command::new("replay")
        .about("Action a past decision again: same answer, same bytes, same fuel")
        .after_help(
            "Exit code 0: the same. 1: something differs. 2: the bundle or the record is not at hand.",
        )
        .arg(
            Arg::new("operation")
                .value_name("OPERATION_ID")
                .help("Every decision of this operation")
                .value_parser(value_parser!(OperationId))
                .required_unless_present_any(["decision", "preview"]),
        )
        .arg(
            option("seq", "EVENT", "Of the operation, only the decision in this event")
                .value_parser(value_parser!(u64))
                .requires("operation"),
        )
        .arg(
            option("decision", "INDEX", "A refusal or a fault, by the `index` of its export")
                .value_parser(value_parser!(u64))
                .conflicts_with_all(["operation", "preview"]),
        )
        .arg(
            option("preview", "INDEX", "A preview, by the `index` of its export")
                .value_parser(value_parser!(u64))
                .conflicts_with("operation"),
        )
        .arg(
            option("bundle", "DIRECTORY", "The bundle that decided, where it is neither configured nor kept")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn impact_command() -> Command {
    Command::new("impact")
        .about("Action a candidate every past decision: what would it change?")
        .arg(
            Arg::new("candidate")
                .value_name("CANDIDATE_DIRECTORY")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(option("last", "DECISIONS", "Only the latest so many").value_parser(value_parser!(usize)))
        .arg(switch("json", "Print one JSON object"))
        .arg(switch("unsigned", "Take a candidate that the trust roots do not vouch for"))
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// What was given to one of these commands, if it was one.
pub(crate) fn leaf(matches: &ArgMatches) -> Option<&ArgMatches> {
    let (_, group) = matches.subcommand()?;
    group.subcommand().map(|(_, leaf)| leaf)
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
        ("policy", "replay") => {
            Some(Records::Replay { which: which(leaf)?, bundle: leaf.get_one("bundle").cloned() })
        }
        ("policy", "impact") => Some(Records::Impact {
            candidate: leaf.get_one::<PathBuf>("candidate")?.clone(),
            n_last: leaf.get_one("last").copied(),
            json: leaf.get_flag("json"),
            unsigned: leaf.get_flag("unsigned"),
        }),
        _ => None,
    }
}

fn which(leaf: &ArgMatches) -> Option<Which> {
    let operation = || {
        let id = *leaf.get_one("operation")?;
        Some(Which::Operation { id, seq: leaf.get_one("seq").copied() })
    };
    let refusal = || leaf.get_one("decision").copied().map(Which::Refusal);
    let preview = || leaf.get_one("preview").copied().map(Which::Preview);
    operation().or_else(refusal).or_else(preview)
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
        Records::Replay { which, bundle } => {
            replay::run(&decisions, settings, *which, bundle.as_deref(), out).await
        }
        Records::Impact { candidate, n_last, json, unsigned } => {
            let wanted = impact::Wanted { n_last: *n_last, json: *json, unsigned: *unsigned };
            impact::run(&decisions, settings, candidate, wanted, out).await
        }
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
        Err(error) => crate::complain(&[gateway_domain::chain(&error)], error.exit_code()),
    }
}
