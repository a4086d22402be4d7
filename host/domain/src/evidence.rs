//! The hash chain of an operation's events.

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::operation::Event;
use crate::redaction::{Redacted, Salt, redact};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainedEvent {
    /// What happened.
    pub event: Event,
    /// What its commitments are salted with.
    pub salt: Salt,
    /// Its hash in the operation's chain, as stored.
    pub hash: Hex32,
}

impl ChainedEvent {
    /// The event as the chain has it.
    ///
    /// # Errors
    /// [`CanonicalError`], which no event gives.
    pub fn redact(&self) -> Result<Redacted, CanonicalError> {
        redact(&self.event, &self.salt)
    }

    /// Whether the stored hash is the event's own, after this one.
    #[must_use]
    pub fn follows(&self, previous: Hex32) -> bool {
        let hash = self.redact().and_then(|redacted| event_hash(previous, &redacted.event));
        hash.is_ok_and(|hash| hash == self.hash)
    }
}

/// `SHA-256("svc/event/v1" || previous hash || canonical event)`, the event as [`redact`] leaves it; the first event's
/// previous hash is zero. The last of an operation's hashes is its `record_root`.
///
/// # Errors
/// [`CanonicalError`] for a value with a floating-point number in it, which no event has.
pub fn event_hash(previous: Hex32, redacted: &Value) -> Result<Hex32, CanonicalError> {
    let bytes = canonical::to_bytes(redacted)?;
    let hasher =
        Sha256::new().chain_update("svc/event/v1").chain_update(previous.as_bytes()).chain_update(bytes);
    Ok(Hex32::new(hasher.finalize().into()))
}
