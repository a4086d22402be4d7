//! The log of all events: reads, and signatures of its head.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{SignedCheckpoint, SignedStatement, VerifierKey};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// The log's head at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LogHeadView))]
pub struct LogHead {
    /// The number of events in the log.
    pub size: u64,
    /// The root of the log's Merkle tree at this size.
    pub root: Hex32,
}

/// Proof that an event is in the log (RFC 6962, section 2.1.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LogInclusionView))]
pub struct LogInclusion {
    /// The event's index, from 0.
    pub index: u64,
    /// SHA-256 of a zero byte followed by the event's hash.
    pub leaf_hash: Hex32,
    /// The head of the log at the requested size.
    pub head: LogHead,
    /// The nodes of the proof, from the leaf's sibling upwards; empty for a log of one event.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub hashes: Vec<Hex32>,
}

/// Proof that the later log begins with the earlier one (RFC 6962, section 2.1.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LogConsistencyView))]
pub struct LogConsistency {
    /// The earlier head.
    pub first: LogHead,
    /// The later head.
    pub second: LogHead,
    /// The nodes of the proof; empty when both heads are the same.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
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
