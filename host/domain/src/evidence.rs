//! The hash chain of an operation's events.

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::operation::Event;
use crate::redaction::{Redacted, Salt, redact};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainedEvent {
    /// The event.
    pub event: Event,
    /// The salt of its commitments.
    pub salt: Salt,
    /// Its stored hash in the operation's chain.
    pub hash: Hex32,
}

impl ChainedEvent {
    /// The redacted form, which the chain hashes.
    pub fn redact(&self) -> Result<Redacted, CanonicalError> {
        redact(&self.event, &self.salt)
    }

    /// Whether the stored hash is the one of this event after an event with the hash `previous`.
    #[must_use]
    pub fn follows(&self, previous: Hex32) -> bool {
        let hash = self.redact().and_then(|redacted| event_hash(previous, &redacted.event));
        hash.is_ok_and(|hash| hash == self.hash)
    }
}

/// `SHA-256("svc/event/v2" || previous hash || canonical event)` of the [redacted](redact) event. The previous hash of the
/// first event is zero. The hash of an operation's last event is its `record_root`.
///
/// # Errors
/// [`CanonicalError`] for a value with a floating-point number, which an event never has.
pub fn event_hash(previous: Hex32, redacted: &Value) -> Result<Hex32, CanonicalError> {
    let bytes = canonical::to_bytes(redacted)?;
    let hasher =
        Sha256::new().chain_update("svc/event/v2").chain_update(previous.as_bytes()).chain_update(bytes);
    Ok(Hex32::new(hasher.finalize().into()))
}
