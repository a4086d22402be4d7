//! The log of all events: reads, and signatures of its head.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{SignedCheckpoint, SignedStatement, VerifierKey};
use serde_json::Value;

/// The log's head at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The number of events.
    pub size: u64,
    /// The root at that size.
    pub root: Hex32,
}

/// A proof that an event is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogInclusion {
    /// The event's index, from 0.
    pub index: u64,
    /// The event's leaf.
    pub leaf_hash: Hex32,
    /// The head that the proof leads to.
    pub head: LogHead,
    /// The hashes from the leaf's sibling to the root's child.
    pub hashes: Vec<Hex32>,
}

/// A proof that a larger log begins with a smaller one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConsistency {
    /// The head of the smaller log.
    pub first: LogHead,
    /// The head of the larger log.
    pub second: LogHead,
    /// In the order of RFC 6962, section 2.1.2; empty for equal sizes.
    pub hashes: Vec<Hex32>,
}

/// The place of an operation's event in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// The event's index, from 0.
    pub index: u64,
    /// The operation, and the event's number in it, from 1. `None` if that cannot be read.
    pub of: Option<(OperationId, u64)>,
}

/// Reads the log of all events. The results are verified: a damaged log gives an error, never a wrong proof.
#[async_trait]
pub trait ReadLog: Send + Sync {
    /// The present head; all its events are on disk.
    async fn log_head(&self) -> Result<LogHead, Unavailable>;

    /// The index of an operation's event, which is numbered from 1. `None` when there is no such event.
    async fn log_index(&self, id: OperationId, seq: u64) -> Result<Option<u64>, Unavailable>;

    /// The index after the last event of an operation; 0 without events.
    async fn events_end(&self) -> Result<u64, Unavailable>;

    /// At most `n_max` events of operations from this index on, in the order of the log. Unlike proofs they are not checked.
    async fn events_from(&self, index: u64, n_max: u32) -> Result<Vec<LoggedEvent>, Unavailable>;

    /// The proof that the log of `size` events has the one at `index`. `None` when the log is smaller than `size`, or `index`
    /// is not below it.
    async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<LogInclusion>, Unavailable>;

    /// The proof that the log of `second` events begins with the log of `first` events. `None` when the log is smaller than
    /// `second`, or when `first` is zero or above `second`.
    async fn log_consistency(&self, first: u64, second: u64) -> Result<Option<LogConsistency>, Unavailable>;
}

/// Signs the log's heads, and other statements by its operator.
#[async_trait]
pub trait SignCheckpoint: Send + Sync {
    /// Signs a head as a checkpoint. A signature cannot be revoked, so the head must be on disk.
    async fn sign_checkpoint(&self, head: LogHead) -> Result<SignedCheckpoint, Unavailable>;

    /// Signs another statement by the log's operator.
    async fn sign_statement(&self, about: &str, value: &Value) -> Result<SignedStatement, Unavailable>;

    /// The key that verifies the signatures.
    fn verifier_key(&self) -> &VerifierKey;
}
