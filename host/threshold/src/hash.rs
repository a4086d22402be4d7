//! The hash function of this crate: SHA-256 over a domain tag and length-prefixed fields.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

/// `H(tag, a, b, …) = SHA-256(len(tag) ‖ tag ‖ len(a) ‖ a ‖ len(b) ‖ b ‖ …)`, each length 8 bytes, big-endian.
///
/// Different tags or field lists give different inputs, so the hash of one use is never valid in another.
pub(crate) struct TaggedHash(Sha256);

impl TaggedHash {
    /// Starts a hash under `tag`, which names its purpose and version.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self(Sha256::new()).bytes(tag.as_bytes())
    }

    /// Adds one field.
    pub(crate) fn bytes(mut self, field: &[u8]) -> Self {
        let length = u64::try_from(field.len()).unwrap_or(u64::MAX);
        self.0.update(length.to_be_bytes());
        self.0.update(field);
        self
    }

    /// Adds one number as an 8-byte big-endian field.
    pub(crate) fn number(self, number: impl Into<u64>) -> Self {
        self.bytes(&number.into().to_be_bytes())
    }

    /// Adds the count of these numbers as a field, then each of them, so that a set cannot be confused with the fields after it.
    pub(crate) fn set(self, numbers: &BTreeSet<u16>) -> Self {
        self.number(u64::try_from(numbers.len()).unwrap_or(u64::MAX)).numbers(numbers)
    }

    /// Adds each of these numbers as a field.
    pub(crate) fn numbers(self, numbers: &BTreeSet<u16>) -> Self {
        numbers.iter().fold(self, |hash, number| hash.number(*number))
    }

    /// The digest.
    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
