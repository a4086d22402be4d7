//! Proofs of the log as JSON. Hashes are Hex32, in the order of RFC 6962.

use gateway_domain::ids::Hex32;
use gateway_engine::ports::{LogConsistency, LogHead, LogInclusion};
use serde::Serialize;
use utoipa::ToSchema;

/// The log's head at one size.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogHeadView {
    /// The number of events in the log.
    pub size: u64,
    /// The root of the log's Merkle tree at this size.
    pub root: Hex32,
}

/// Proof that an event is in the log (RFC 6962, section 2.1.1).
#[derive(Debug, Serialize, ToSchema)]
pub struct LogInclusionView {
    /// The event's index, from 0.
    pub index: u64,
    /// SHA-256 of a zero byte followed by the event's hash.
    pub leaf_hash: Hex32,
    /// The head of the log at the requested size.
    pub head: LogHeadView,
    /// The nodes of the proof, from the leaf's sibling upwards; empty for a log of one event.
    #[schema(value_type = Vec<String>)]
    pub hashes: Vec<Hex32>,
}

/// Proof that the later log begins with the earlier one (RFC 6962, section 2.1.2).
#[derive(Debug, Serialize, ToSchema)]
pub struct LogConsistencyView {
    /// The earlier head.
    pub first: LogHeadView,
    /// The later head.
    pub second: LogHeadView,
    /// The nodes of the proof; empty when both heads are the same.
    #[schema(value_type = Vec<String>)]
    pub hashes: Vec<Hex32>,
}

impl From<LogHead> for LogHeadView {
    fn from(LogHead { size, root }: LogHead) -> Self {
        Self { size, root }
    }
}

impl From<LogInclusion> for LogInclusionView {
    fn from(LogInclusion { index, leaf_hash, head, hashes }: LogInclusion) -> Self {
        Self { index, leaf_hash, head: head.into(), hashes }
    }
}

impl From<LogConsistency> for LogConsistencyView {
    fn from(LogConsistency { first, second, hashes }: LogConsistency) -> Self {
        Self { first: first.into(), second: second.into(), hashes }
    }
}
