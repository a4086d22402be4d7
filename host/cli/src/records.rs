//! `operation-gateway decisions export`, `policy explain`, `policy replay` and `policy impact`: read past decisions of policies, and
//! evaluate them again.
//!
//! The commands read the store of a gateway that may be running, and change nothing.

mod arguments;
pub(crate) mod bundle;
mod explain;
mod export;
mod impact;
pub(crate) mod replay;

use arguments::RecordsError;
pub use arguments::{Explain, Export, Impact, Replay, Trust};
use clap::{Args, Subcommand};
use gateway_domain::policy::facts::Rules;
use gateway_service::process;
use gateway_store::Decisions;
use std::path::Path;
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

#[derive(Debug, Subcommand)]
pub enum PolicyCommand<S: Args> {
    /// Print a past decision in words: reasons with their remedies, facts, approvals, bundle
    #[command(after_help = "Exit code 2: the record is not available.")]
    Explain {
        #[command(flatten)]
        settings: S,
        #[command(flatten)]
        explain: Explain,
    },
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

/// Runs `decisions export` on the store at this URL.
#[must_use]
pub fn export(database_url: &str, arguments: &Export) -> ExitCode {
    with_decisions(database_url, async |decisions| export::run(decisions, arguments).await)
}

/// Runs `policy explain`. `policy_bundle` is the gateway's setting.
#[must_use]
pub fn explain(database_url: &str, policy_bundle: &Path, arguments: &Explain) -> ExitCode {
    with_decisions(database_url, async |decisions| explain::run(decisions, policy_bundle, arguments).await)
}

/// Runs `policy replay`. `policy_bundle` is the gateway's setting.
#[must_use]
pub fn replay(database_url: &str, policy_bundle: &Path, arguments: &Replay) -> ExitCode {
    with_decisions(database_url, async |decisions| replay::run(decisions, policy_bundle, arguments).await)
}

/// Runs `policy impact`. The candidate must be signed as `trust` requires, unless the arguments accept an unsigned one. `rules` are the
/// deployment's of today.
#[must_use]
pub fn impact(database_url: &str, trust: &Trust<'_>, rules: &Rules, arguments: &Impact) -> ExitCode {
    with_decisions(database_url, async |decisions| impact::run(decisions, trust, rules, arguments).await)
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
    process::run(command, RecordsError::exit_code)
}
