//! The hash chain of an operation's events.

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::operation::Event;
use sha2::{Digest, Sha256};

/// `SHA-256("svc/event/v1" || previous hash || canonical event)`; the first event's previous hash is zero.
/// The last of an operation's hashes is its `record_root`.
///
/// # Errors
/// [`CanonicalError`], which no event gives.
pub fn event_hash(previous: Hex32, event: &Event) -> Result<Hex32, CanonicalError> {
    let bytes = canonical::to_bytes(event)?;
    let hasher =
        Sha256::new().chain_update("svc/event/v1").chain_update(previous.as_bytes()).chain_update(bytes);
    Ok(Hex32::new(hasher.finalize().into()))
}
