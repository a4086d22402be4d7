//! The arguments of the commands on past decisions, and why such a command fails.

use clap::Args;
use gateway_domain::ids::OperationId;
use gateway_domain::policy::{DecisionId, InvalidDecisionId};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_service::output::{EXIT_FAILED, EXIT_UNCHECKED};
use gateway_store::{Cursor, OpenError};
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, Args)]
#[group(skip)]
pub struct Export {
    /// Print only the decisions after the line with this `cursor`
    #[arg(long, value_name = "CURSOR")]
    pub(super) after: Option<Cursor>,
    /// Maximum number of lines to print
    #[arg(long, value_name = "LINES")]
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Replay {
    #[command(flatten)]
    pub(super) selected: Selected,
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Explain {
    #[command(flatten)]
    pub(super) selected: Selected,
}

/// Which decisions a command is about.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Selected {
    /// A decision, as a denial or an export names it (`refusal-N`, `preview-N`, `OPERATION_ID-EVENT`), or an operation: all decisions on it
    #[arg(value_name = "ID")]
    pub(super) id: SelectedId,
    /// The bundle that decided, if it is neither configured nor in the store
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) bundle: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SelectedId {
    Operation(OperationId),
    Decision(DecisionId),
}

impl FromStr for SelectedId {
    type Err = InvalidDecisionId;

    fn from_str(text: &str) -> Result<Self, InvalidDecisionId> {
        match text.parse() {
            Ok(id) => Ok(Self::Operation(id)),
            Err(_) => text.parse().map(Self::Decision),
        }
    }
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Impact {
    #[arg(value_name = "CANDIDATE_DIRECTORY")]
    pub(super) candidate: PathBuf,
    /// Only this many of the latest decisions
    #[arg(long, value_name = "DECISIONS")]
    pub(super) last: Option<usize>,
    /// Maximum number of differences to list. The counts cover all decisions
    #[arg(long, value_name = "DIFFERENCES", default_value_t = 20)]
    pub(super) list: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Accept a candidate that is not signed as the trust roots require
    #[arg(long)]
    pub(super) unsigned: bool,
}

/// The trust roots that a candidate's signatures must satisfy.
#[derive(Debug)]
pub struct Trust<'a> {
    /// The gateway's setting `policy_trust_roots`.
    pub roots: &'a Path,
    pub now: EpochMs,
}

/// Why a bundle cannot evaluate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleFault {
    #[error("bundle `{}` cannot be used", path.display())]
    Unusable { path: PathBuf, source: crate::bundle::Error },
    #[error("policy trust roots `{}` cannot be read", path.display())]
    TrustRoots { path: PathBuf, source: std::io::Error },
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordsError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Bundle(#[from] BundleFault),
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
    pub(super) const fn exit_code(&self) -> u8 {
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
