//! What every process of the product has around its router: [settings](mod@settings), [`telemetry`], [`transport`] (connections and TLS),
//! [`strict`] JSON and [`signals`]; what it prints ([`output`]); and what its [`package`] has besides the binary.
//!
//! Nothing here knows operations. The gateway adds its API to it, a runtime node and the policy authority their own few routes,
//! which [`answer`] serves with the same errors.

pub mod answer;
pub mod approvers;
pub mod body;
#[cfg(feature = "client")]
pub mod client;
pub mod layers;
mod log_queue;
pub mod output;
pub mod package;
pub mod process;
pub mod quota;
pub mod rounds;
pub mod settings;
pub mod signals;
pub mod strict;
pub mod system_limits;
pub mod telemetry;
pub mod traces;
pub mod transport;

use gateway_domain::error_chain;
use gateway_domain::time::EpochMs;
use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a process does not start: one line for an operator.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}", error_chain(.cause.as_ref()))]
pub struct StartError {
    /// The part that failed.
    what: String,
    /// Not a source: the message has it.
    cause: Box<dyn Error + Send + Sync>,
}

impl StartError {
    /// The error of a part.
    #[must_use]
    pub fn new(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { what: what.into(), cause: source.into() }
    }
}

/// Names of metrics, each with its description.
pub type Descriptions = &'static [(&'static str, &'static str)];

/// The time of the machine's clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place where time comes from")]
pub fn now() -> EpochMs {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    EpochMs(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}
