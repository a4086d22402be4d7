//! How results of calls are printed, and why a call fails.

use clap::Args;
use gateway_client::Error;
use gateway_service::output::{self, EXIT_FAILED, EXIT_UNCHECKED};
use gateway_service::process::Fault;

/// The exit codes, for help texts.
pub(super) const EXIT_CODES: &str = "Exit code 0: done. 1: the gateway refuses, or the operation failed. 2: the command cannot be carried out. 3: the time to \
                          wait is over. 4: the gateway does not answer.";

/// Exit code when the time to wait is over.
const EXIT_STILL_WAITING: u8 = 3;

/// Exit code when the gateway does not answer.
const EXIT_NO_ANSWER: u8 = 4;

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
pub(super) enum Form {
    ForPeople,
    Json,
    /// One word, for scripts.
    Brief,
}

impl Output {
    pub(super) fn form(&self) -> Form {
        match self {
            Self { brief: true, .. } => Form::Brief,
            Self { json: true, .. } => Form::Json,
            Self { .. } if output::is_terminal() => Form::ForPeople,
            Self { .. } => Form::Json,
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
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
    pub(super) const fn exit_code(&self) -> u8 {
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
