//! The record's rows: numbers as SQLite stores them, and hashes. A hash is SHA-256 over the tag `svc/authority-row/v2` and the canonical JSON of the table's name and the columns.
//!
//! The hash is not keyed, so it detects damage but not forgery.

use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::ids::Hex32;
use serde::Serialize;

const TAG: &str = "svc/authority-row/v2";

/// All columns of `spending`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spending<'a> {
    pub(crate) operation_id: &'a str,
    pub(crate) intent_hash: &'a str,
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
        canonical::digest(TAG, &("spending", self))
    }
}

/// The hash of a row of `bundle`.
pub(crate) fn bundle_hash(
    bundle_hash: &str,
    sequence: i64,
    active_at_ms: i64,
) -> Result<Hex32, CanonicalError> {
    canonical::digest(TAG, &("bundle", bundle_hash, sequence, active_at_ms))
}

/// A number as SQLite stores it.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
