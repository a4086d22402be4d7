//! The one hash of this crate: SHA-256 over a domain tag and fields that cannot run into one another.

use sha2::{Digest, Sha256};

/// `H(tag, a, b, …) = SHA-256(len(tag) ‖ tag ‖ len(a) ‖ a ‖ len(b) ‖ b ‖ …)`, each length 8 bytes, big-endian; a number
/// is a field of 8 bytes, big-endian. The threshold crate hashes the same way.
///
/// What is signed, and what a ciphertext is bound to, is always such a digest: different tags or different lists of
/// fields give different inputs, so no two uses can be confused.
pub(crate) struct TaggedHash(Sha256);

impl TaggedHash {
    /// Opens a hash under `tag`, which names the meaning and its version.
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

    /// Adds one number.
    pub(crate) fn number(self, number: impl Into<u64>) -> Self {
        self.bytes(&number.into().to_be_bytes())
    }

    /// The digest.
    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
