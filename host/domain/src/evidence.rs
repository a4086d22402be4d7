//! The hash chain of an operation's events.

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::operation::Event;
use crate::redaction::{Redacted, Salt, redact, redacted_bytes};
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

/// The fault of a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// Another hash.
    #[error("`event_hash` does not follow from the event, its salt and the previous hash")]
    Hash,
    /// A salt that nothing uses.
    #[error("`salt` is not zero, but the event hides nothing")]
    Salt,
}

impl ChainedEvent {
    /// The event after one with the hash `previous`. `fresh` is its salt, unless it hides nothing.
    ///
    /// # Errors
    /// [`CanonicalError`] for a value with a floating-point number, which an event never has.
    pub fn after(previous: Hex32, event: Event, fresh: Salt) -> Result<Self, CanonicalError> {
        let (redacted, hides_something) = redacted_bytes(&event, &fresh)?;
        let salt = if hides_something { fresh } else { Salt::UNUSED };
        Ok(Self { event, salt, hash: hash_bytes(previous, &redacted) })
    }

    /// The redacted form, which the chain hashes.
    pub fn redact(&self) -> Result<Redacted, CanonicalError> {
        redact(&self.event, &self.salt)
    }

    /// Whether the stored hash is the one of this event after an event with the hash `previous`.
    #[must_use]
    pub fn follows(&self, previous: Hex32) -> bool {
        fault(previous, &self.event, &self.salt, self.hash) != Some(ChainFault::Hash)
    }
}

/// What is wrong with the hash or the salt of an event after one with the hash `previous`.
#[must_use]
pub fn fault(previous: Hex32, event: &Event, salt: &Salt, hash: Hex32) -> Option<ChainFault> {
    match redacted_bytes(event, salt) {
        Ok((bytes, _)) if hash_bytes(previous, &bytes) != hash => Some(ChainFault::Hash),
        Ok((_, false)) if *salt != Salt::UNUSED => Some(ChainFault::Salt),
        Ok(_) => None,
        Err(_) => Some(ChainFault::Hash),
    }
}

/// Stored events, with those that are going to be stored after them; some of these may be stored by now. `None` if another event follows
/// the stored ones.
#[must_use]
pub fn continued(mut stored: Vec<ChainedEvent>, next: &[ChainedEvent]) -> Option<Vec<ChainedEvent>> {
    let head = stored.last().map_or(Hex32::ZERO, |last| last.hash);
    let n_stored = next.iter().position(|event| event.hash == head).map_or(0, |last| last.saturating_add(1));
    let missing = next.get(n_stored..).unwrap_or_default();
    if missing.first().is_some_and(|first| !first.follows(head)) {
        return None;
    }
    stored.extend_from_slice(missing);
    Some(stored)
}

/// `SHA-256("svc/event/v2" || previous hash || canonical event)` of the [redacted](redact) event. The previous hash of the
/// first event is zero. The hash of an operation's last event is its `record_root`.
///
/// # Errors
/// [`CanonicalError`] for a value with a floating-point number, which an event never has.
pub fn event_hash(previous: Hex32, redacted: &Value) -> Result<Hex32, CanonicalError> {
    Ok(hash_bytes(previous, &canonical::to_bytes(redacted)?))
}

fn hash_bytes(previous: Hex32, redacted: &[u8]) -> Hex32 {
    let hasher =
        Sha256::new().chain_update("svc/event/v2").chain_update(previous.as_bytes()).chain_update(redacted);
    Hex32::new(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::chained;

    #[test]
    fn stored_events_are_continued_by_those_that_follow_them() {
        let golden: Vec<Event> = serde_json::from_str(include_str!("../golden/events.json")).unwrap();
        let all = chained(Hex32::ZERO, golden.into_iter().take(4));
        for n_stored in 1..=4 {
            assert_eq!(
                continued(all[..n_stored].to_vec(), &all[1..]).as_ref(),
                Some(&all),
                "{n_stored} stored"
            );
            assert_eq!(continued(all[..n_stored].to_vec(), &[]).as_deref(), Some(&all[..n_stored]));
        }
        let mut other = all[..2].to_vec();
        other.extend(chained(all[1].hash, [all[3].event.clone()]));
        assert_eq!(continued(other, &all[2..]), None, "another writer continued them");
    }
}
