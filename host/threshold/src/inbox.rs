//! Messages as they come: out of order, repeated, now and then contradicting one another.

use std::collections::{BTreeMap, BTreeSet};

use zeroize::Zeroizing;

use crate::hash::TaggedHash;
use crate::{Message, ThresholdError};

/// The bodies of one round by sender.
pub(crate) type Bodies = BTreeMap<u16, Zeroizing<Vec<u8>>>;

/// Holds at most one message for each sender and round, until its round is complete.
///
/// Bounded because only admitted messages are put here: known senders, known rounds, known lengths.
#[derive(Default)]
pub(crate) struct Inbox {
    bodies: BTreeMap<(u8, u16), Zeroizing<Vec<u8>>>,
    /// Digests of everything ever put, so that a repeat is known for one when its body, maybe secret, is long gone.
    seen: BTreeMap<(u8, u16), [u8; 32]>,
}

impl Inbox {
    /// Keeps a message; a repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::ConflictingMessages`] if the sender said something else in this round before.
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

    /// Takes out the messages of `round` once every one of `peers` has sent its own; before that, `None`.
    pub(crate) fn take(&mut self, round: u8, peers: &BTreeSet<u16>) -> Option<Bodies> {
        let complete = peers.iter().all(|peer| self.bodies.contains_key(&(round, *peer)));
        complete.then_some(())?;
        peers.iter().map(|peer| Some((*peer, self.bodies.remove(&(round, *peer))?))).collect()
    }
}
