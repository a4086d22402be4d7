//! Keeps received messages until their round is complete. They may arrive out of order or repeated.

use std::collections::{BTreeMap, BTreeSet};

use zeroize::Zeroizing;

use crate::ThresholdError;
use crate::ceremony::{Bodies, Message};
use crate::hash::TaggedHash;

/// Keeps at most one message per sender and round, until the round is complete. Its size is limited, because the ceremony has
/// checked sender, round and length of each message before.
#[derive(Default)]
pub(crate) struct Inbox {
    bodies: BTreeMap<(u8, u16), Zeroizing<Vec<u8>>>,
    /// Digests of all messages received, to recognise a repeat after the body was taken and wiped.
    seen: BTreeMap<(u8, u16), [u8; 32]>,
}

impl Inbox {
    /// Keeps a message. A repeat of the same message has no effect.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::ConflictingMessages`] if the sender sent a different message in this round before.
    pub(crate) fn put(&mut self, message: Message) -> Result<(), ThresholdError> {
        let Message { from, round, body, .. } = message;
        let digest = TaggedHash::new("svc/inbox/v1").bytes(&body).finish();
        match self.seen.insert((round, from), digest) {
            None => {
                self.bodies.insert((round, from), body);
                Ok(())
            }
            Some(before) if before == digest => Ok(()),
            Some(_) => Err(ThresholdError::ConflictingMessages { from, round }),
        }
    }

    /// Removes and returns the messages of `round`, or `None` while one of `peers` has not sent its message.
    pub(crate) fn take(&mut self, round: u8, peers: &BTreeSet<u16>) -> Option<Bodies> {
        let complete = peers.iter().all(|peer| self.bodies.contains_key(&(round, *peer)));
        complete.then_some(())?;
        peers.iter().map(|peer| Some((*peer, self.bodies.remove(&(round, *peer))?))).collect()
    }
}
