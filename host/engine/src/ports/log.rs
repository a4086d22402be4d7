//! The log of all events: reading it, and signing its head.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{SignedCheckpoint, SignedStatement, VerifierKey};
use serde_json::Value;

/// The log at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// How many events it has.
    pub size: u64,
    /// Its root then.
    pub root: Hex32,
}

/// That an event is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogInclusion {
    /// The event's place, from 0.
    pub index: u64,
    /// The event's leaf.
    pub leaf_hash: Hex32,
    /// The log that it is in.
    pub head: LogHead,
    /// From the leaf's sibling to the root's child.
    pub hashes: Vec<Hex32>,
}

/// That the log only grew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConsistency {
    /// The log before.
    pub first: LogHead,
    /// The log after.
    pub second: LogHead,
    /// In the order of RFC 6962, section 2.1.2; none when both are one.
    pub hashes: Vec<Hex32>,
}

/// Reads the log of all events. What is given was checked: a damaged log is an error that says so, never a wrong proof.
#[async_trait]
pub trait ReadLog: Send + Sync {
    /// The log as it is: all of it is on disk.
    async fn log_head(&self) -> Result<LogHead, Unavailable>;

    /// The place of an operation's event, which is numbered from 1. None when there is no such event.
    async fn log_index(&self, id: OperationId, seq: u64) -> Result<Option<u64>, Unavailable>;

    /// That the log, when it had `size` events, had this one. None when it never had so many, or there is none at
    /// `index` among them.
    async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<LogInclusion>, Unavailable>;

    /// That the log, when it had `second` events, began with the `first` of before. None when it never had so many, or
    /// there is nothing to prove: with 0 events before, or more before than after.
    async fn log_consistency(&self, first: u64, second: u64) -> Result<Option<LogConsistency>, Unavailable>;
}

/// Signs for the log: its heads, and what its operator states besides.
#[async_trait]
pub trait SignCheckpoint: Send + Sync {
    /// The head as a signed checkpoint. What is signed can not be taken back: only a head that is on disk.
    async fn sign_checkpoint(&self, head: LogHead) -> Result<SignedCheckpoint, Unavailable>;

    /// A statement of the log's operator besides its heads.
    async fn sign_statement(&self, about: &str, value: &Value) -> Result<SignedStatement, Unavailable>;

    /// What the signatures are checked with.
    fn verifier_key(&self) -> &VerifierKey;
}
