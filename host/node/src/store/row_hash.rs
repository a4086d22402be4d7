//! Hashes of rows in which a change would otherwise go unnoticed: SHA-256 over the tag `svc/node-row/v1` and the canonical JSON
//! of the table's name and the columns.
//!
//! The hash is not keyed, so it detects damage but not forgery. Rows of `operation` have none: the check recomputes their head.
//! Rows of `log_entry` have the leaf of their tree.

use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::ids::Hex32;
use serde::Serialize;

const TAG: &str = "svc/node-row/v1";

fn hash<T: Serialize>(row: &T) -> Result<Hex32, CanonicalError> {
    canonical::digest(TAG, row)
}

pub(crate) fn statement(body: &str) -> Result<Hex32, CanonicalError> {
    hash(&("statement", body))
}

pub(crate) fn effect(effect_id: &str, content: &str, transition_hash: &str) -> Result<Hex32, CanonicalError> {
    hash(&("effect", effect_id, content, transition_hash))
}

/// All columns of `consumed`.
#[derive(Serialize)]
pub(crate) struct Consumed<'a> {
    pub(crate) operation_id: &'a str,
    pub(crate) attempt: u32,
    pub(crate) commitment_hash: &'a str,
    pub(crate) package_hash: &'a str,
    pub(crate) package: &'a str,
    /// Hexadecimal.
    pub(crate) share: &'a str,
}

impl Consumed<'_> {
    pub(crate) fn hash(&self) -> Result<Hex32, CanonicalError> {
        hash(&("consumed", self))
    }
}

pub(crate) fn ceremony(operation_id: &str, attempt: u32) -> Result<Hex32, CanonicalError> {
    hash(&("ceremony", operation_id, attempt))
}

/// All columns of `rolled_back`; `readmitted` are the last two.
pub(crate) fn rolled_back(
    size_shown: u64,
    lost_from: u64,
    readmitted: Option<(u64, u64)>,
) -> Result<Hex32, CanonicalError> {
    hash(&("rolled_back", size_shown, lost_from, readmitted))
}

/// All columns of `bundle`.
#[derive(Serialize)]
pub(crate) struct Bundle<'a> {
    pub(crate) bundle_hash: &'a str,
    pub(crate) sequence: i64,
    pub(crate) offered_at_ms: i64,
    pub(crate) active_at_ms: Option<i64>,
    /// The names of its files, one a line.
    pub(crate) files: &'a str,
}

impl Bundle<'_> {
    pub(crate) fn hash(&self) -> Result<Hex32, CanonicalError> {
        hash(&("bundle", self))
    }
}

pub(crate) fn bundle_file(bundle_hash: &str, name: &str, bytes: &[u8]) -> Result<Hex32, CanonicalError> {
    hash(&("bundle_file", bundle_hash, name, canonical::digest_bytes("", bytes)))
}

/// All columns of `spending`.
#[derive(Serialize)]
pub(crate) struct Spending<'a> {
    pub(crate) operation_id: &'a str,
    pub(crate) tenant: &'a str,
    pub(crate) account: &'a str,
    pub(crate) recipient: &'a str,
    pub(crate) submitter: &'a str,
    pub(crate) key_id: &'a str,
    pub(crate) currency: &'a str,
    pub(crate) amount_minor: i64,
    pub(crate) at_ms: i64,
}

impl Spending<'_> {
    pub(crate) fn hash(&self) -> Result<Hex32, CanonicalError> {
        hash(&("spending", self))
    }
}

/// A row of `share` without its public keys and secret. The root is a hash of the public keys, and authenticated encryption
/// protects the secret.
#[derive(Serialize)]
pub(crate) struct Share<'a> {
    pub(crate) key_id: &'a str,
    pub(crate) epoch: &'a str,
    pub(crate) state: &'a str,
    pub(crate) operation_id: &'a str,
    pub(crate) attempt: u32,
    pub(crate) made_at_ms: i64,
    pub(crate) used_since_ms: Option<i64>,
    pub(crate) epoch_root: &'a str,
}

impl Share<'_> {
    pub(crate) fn hash(&self) -> Result<Hex32, CanonicalError> {
        hash(&("share", self))
    }
}
