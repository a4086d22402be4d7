//! The secret that keeps hidden values from being guessed.

use crate::ids::Hex32;
use sha2::{Digest, Sha256};
use std::fmt;

/// The salt of one event's commitments: 32 random bytes, as secret as the values that the commitments hide.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt([u8; 32]);

impl Salt {
    /// The salt of an event that hides nothing. It is fixed, so that a changed salt of such an event is detected.
    pub const UNUSED: Self = Self([0; 32]);

    /// Wraps 32 bytes, which must come from the operating system's random generator.
    #[must_use]
    pub const fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// The 32 bytes, for the store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn of_field(&self, path: &str) -> Hex32 {
        let hasher = Sha256::new().chain_update("svc/field-salt/v1").chain_update(self.0).chain_update(path);
        Hex32::new(hasher.finalize().into())
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(<redacted>)")
    }
}
