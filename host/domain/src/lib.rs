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
mod hex_bytes;
pub mod ids;
pub mod intent;
pub mod json;
pub mod key;
pub mod log;
pub mod names;
pub mod node_log;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod operation;
pub mod people;
pub mod policy;
pub mod receipt;
pub mod redaction;
pub mod roster;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod signature;
pub mod step;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
mod words;

use std::error::Error;

/// An error with all its sources on one line, for operators. A source that the text has already is not repeated.
#[must_use]
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for source in std::iter::successors(error.source(), |error| (*error).source()) {
        let source = format!(": {source}");
        if !line.contains(&source) {
            line.push_str(&source);
        }
    }
    line.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the store is closed")]
    struct Closed;

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("cannot read {0}")]
        Named(&'static str, #[source] Closed),
        #[error("cannot start: {0}")]
        Repeated(#[from] Closed),
        #[error("tried again: {0}")]
        Again(#[source] Box<Failed>),
    }

    #[test]
    fn error_is_shown_with_each_of_its_sources_once() {
        let cases = [
            (Failed::Named("a row", Closed), "cannot read a row: the store is closed"),
            (Failed::Repeated(Closed), "cannot start: the store is closed"),
            (
                Failed::Again(Failed::Repeated(Closed).into()),
                "tried again: cannot start: the store is closed",
            ),
            (
                Failed::Again(Failed::Named("a row", Closed).into()),
                "tried again: cannot read a row: the store is closed",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error_chain(&error), expected);
        }
    }
}
