//! The rules of operations, keys, approvals and evidence, as pure functions over plain values.
//!
//! Deliberately absent: I/O, clocks, randomness, async. Time and identifiers are arguments.
//!
//! Reading order: [`operation`] (the state machine), [`intent`] (requests), [`policy`] (a policy's input and
//! outcome), [`admission`] (the authority's signed decision), [`receipt`] (the nodes' signed receipts), [`key`], [`contribution`] (to a recovery),
//! [`evidence`] (the hash chain of events), [`log`] (the Merkle tree of all events), [`node_log`] (the log of one node);
//! below them [`canonical`] (the encoding that is hashed), [`dsse`], [`ed25519`], [`json`], [`roster`], [`ids`], [`names`].

pub mod admission;
pub mod approval;
pub mod binding;
pub mod canonical;
pub mod contribution;
pub mod dsse;
pub mod ed25519;
pub mod evidence;
pub mod ids;
pub mod intent;
pub mod json;
pub mod key;
pub mod log;
pub mod names;
pub mod node_log;
pub mod operation;
pub mod policy;
pub mod receipt;
pub mod redaction;
pub mod roster;
pub mod step;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;

use std::error::Error;

/// An error with all its sources on one line, for operators.
#[must_use]
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ").replace('\n', " ")
}
