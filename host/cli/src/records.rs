//! `operation-gateway decisions export`, `policy replay` and `policy impact`: read past decisions of policies, and evaluate them
//! again.
//!
//! The three commands read the store of a gateway that may be running, and change nothing.

pub(crate) mod bundle;
mod export;
mod impact;
pub(crate) mod replay;

use crate::{EXIT_FAILED, EXIT_UNCHECKED};
use clap::{Args, Subcommand};
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_store::{Cursor, Decisions, OpenError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum DecisionsCommand<S: Args> {
    /// Print every recorded decision, one JSON object per line
    Export {
        #[command(flatten)]
        settings: S,
        #[command(flatten)]
        export: Export,
    },
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Export {
    /// Print only the decisions after the line with this `cursor`
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Maximum number of lines to print
    #[arg(long, value_name = "LINES")]
    limit: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand<S: Args> {
    /// Evaluate a past decision again: the bundle must give the same answer with the same bytes and fuel
    #[command(
        after_help = "Exit code 0: the same. 1: something differs. 2: the bundle or the record is not available."
    )]
    Replay {
        #[command(flatten)]
        settings: S,
        #[command(flatten)]
        replay: Replay,
    },
    /// Evaluate the policy of a gateway without an operation, over its API
    #[command(
        after_help = "The evaluation is recorded. Exit code 0: there is an answer, whatever it is. 1: the gateway refuses. 2: the command cannot be \
                            carried out. 4: the gateway does not answer."
    )]
    Preview(crate::calls::Preview),
    /// Evaluate every past decision with another bundle, and print what it would change
    Impact {
        #[command(flatten)]
        settings: S,
        #[command(flatten)]
        impact: Impact,
    },
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Replay {
    /// Every decision of this operation
    #[arg(value_name = "OPERATION_ID", required_unless_present_any = ["decision", "preview"])]
    operation: Option<OperationId>,
    /// Of the operation, only the decision in this event
    #[arg(long, value_name = "EVENT", requires = "operation")]
    seq: Option<u64>,
    /// A refusal or a fault, by the `index` of its export
    #[arg(long, value_name = "INDEX", conflicts_with_all = ["operation", "preview"])]
    decision: Option<u64>,
    /// A preview, by the `index` of its export
    #[arg(long, value_name = "INDEX", conflicts_with = "operation")]
    preview: Option<u64>,
    /// The bundle that decided, if it is neither configured nor in the store
    #[arg(long, value_name = "DIRECTORY")]
    bundle: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Impact {
    #[arg(value_name = "CANDIDATE_DIRECTORY")]
    candidate: PathBuf,
    /// Only this many of the latest decisions
    #[arg(long, value_name = "DECISIONS")]
    last: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Accept a candidate that is not signed as the trust roots require
    #[arg(long)]
    unsigned: bool,
}

/// The trust roots that a candidate's signatures must satisfy.
#[derive(Debug)]
pub struct Trust<'a> {
    /// The gateway's setting `policy_trust_roots`.
    pub roots: &'a Path,
    pub now: EpochMs,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum RecordsError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Bundle(#[from] bundle::BundleFault),
    #[error("no such decision is recorded")]
    NoSuchDecision,
    #[error(
        "the database has no record `{0}` of the cursor: it was restored from an older copy since. Export all of it again, without `--after`"
    )]
    NotOfThisStore(String),
    #[error("the output cannot be written")]
    Output(#[from] std::io::Error),
    #[error("the policy engine cannot start")]
    Engine(#[from] gateway_policy::EngineError),
    #[error("the output cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl RecordsError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchDecision | Self::Bundle(_) => EXIT_UNCHECKED,
            Self::Open(_)
            | Self::Unavailable(_)
            | Self::NotOfThisStore(_)
            | Self::Output(_)
            | Self::Engine(_)
            | Self::Json(_) => EXIT_FAILED,
        }
    }
}

/// Runs `decisions export` on the store at this URL.
#[must_use]
pub fn export(database_url: &str, arguments: &Export) -> ExitCode {
    with_decisions(database_url, async |decisions| export::run(decisions, arguments).await)
}

/// Runs `policy replay`. `policy_bundle` is the gateway's setting.
#[must_use]
pub fn replay(database_url: &str, policy_bundle: &Path, arguments: &Replay) -> ExitCode {
    with_decisions(database_url, async |decisions| replay::run(decisions, policy_bundle, arguments).await)
}

/// Runs `policy impact`. The candidate must be signed as `trust` requires, unless the arguments accept an unsigned one.
#[must_use]
pub fn impact(database_url: &str, trust: &Trust<'_>, arguments: &Impact) -> ExitCode {
    with_decisions(database_url, async |decisions| impact::run(decisions, trust, arguments).await)
}

fn with_decisions(
    database_url: &str,
    command: impl AsyncFnOnce(&Decisions) -> Result<ExitCode, RecordsError>,
) -> ExitCode {
    let command = async {
        let decisions = Decisions::open(database_url).await?;
        let done = command(&decisions).await;
        decisions.close().await;
        done
    };
    crate::run(command, RecordsError::exit_code)
}
