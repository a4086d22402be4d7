//! The log of all events: reads, and signatures of its head.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{SignedCheckpoint, SignedStatement, VerifierKey};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

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

/// The name of an event in the log: its index, and the beginning of its hash. A log that was restored from an older copy has no event
/// of this name, although it may have one at this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    /// The event's index, from 0.
    pub index: u64,
    hash_prefix: u64,
}

impl EventId {
    /// The name of the event at this index that has this hash.
    #[must_use]
    pub fn new(index: u64, event_hash: Hex32) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *event_hash.as_bytes();
        Self { index, hash_prefix: u64::from_be_bytes([a, b, c, d, e, f, g, h]) }
    }
}

/// `INDEX-PREFIX`: the index in decimal, and 16 hexadecimal characters.
impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.index, self.hash_prefix)
    }
}

impl FromStr for EventId {
    type Err = NotAnEventId;

    /// Reads what [`fmt::Display`] writes, and nothing else.
    fn from_str(text: &str) -> Result<Self, NotAnEventId> {
        let parts = text.split_once('-').and_then(|(index, prefix)| {
            let index = i64::from_str(index).ok().and_then(|index| u64::try_from(index).ok())?;
            Some(Self { index, hash_prefix: u64::from_str_radix(prefix, 16).ok()? })
        });
        parts.filter(|id| id.to_string() == text).ok_or(NotAnEventId)
    }
}

/// A text that names no event in any log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not `INDEX-PREFIX`")]
pub struct NotAnEventId;

/// The place of an operation's event in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// The event's index, from 0.
    pub index: u64,
    /// The event's hash. `None` if that cannot be read.
    pub hash: Option<Hex32>,
    /// The operation, and the event's number in it, from 1. `None` if that cannot be read.
    pub of: Option<(OperationId, u64)>,
}

impl LoggedEvent {
    /// The event's name, if its hash can be read.
    #[must_use]
    pub fn id(&self) -> Option<EventId> {
        Some(EventId::new(self.index, self.hash?))
    }
}

/// Reads the log of all events. The results are verified: a damaged log gives an error, never a wrong proof.
#[async_trait]
pub trait ReadLog: Send + Sync {
    /// The present head; all its events are on disk.
    async fn log_head(&self) -> Result<LogHead, Unavailable>;

    /// The index of an operation's event, which is numbered from 1. `None` when there is no such event.
    async fn log_index(&self, id: OperationId, seq: u64) -> Result<Option<u64>, Unavailable>;

    /// The last event of an operation; `None` without events. Unlike proofs it is not checked.
    async fn last_event(&self) -> Result<Option<LoggedEvent>, Unavailable>;

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
