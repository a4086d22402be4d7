//! What the messages of one ceremony look like to one participant, whatever the protocol.

use std::collections::{BTreeMap, BTreeSet};

use zeroize::Zeroizing;

use crate::inbox::Bodies;
use crate::{Message, ThresholdError};

/// Bytes of the binding that opens every body.
const BINDING_BYTES: usize = 32;

/// One participant's view of a ceremony.
pub(crate) struct Ceremony {
    pub(crate) me: u16,
    /// Hash of the ceremony id and of everything agreed on.
    pub(crate) binding: [u8; BINDING_BYTES],
    /// From round 1.
    // INVARIANT: `me` is no sender. Kept by `new`.
    rounds: Vec<Round>,
}

/// What comes to us in one round.
pub(crate) struct Round {
    /// Who sends us a message: nobody, if the round is not for us.
    senders: BTreeSet<u16>,
    private: bool,
    payload_bytes: usize,
}

impl Round {
    /// Each sender tells everybody the same.
    pub(crate) fn broadcast(senders: &BTreeSet<u16>, payload_bytes: usize) -> Self {
        Self { senders: senders.clone(), private: false, payload_bytes }
    }

    /// Each sender tells us something that is for us alone.
    pub(crate) fn private(senders: &BTreeSet<u16>, payload_bytes: usize) -> Self {
        Self { senders: senders.clone(), private: true, payload_bytes }
    }

    /// Whatever is said in this round is not for us.
    pub(crate) fn silent() -> Self {
        Self { senders: BTreeSet::new(), private: true, payload_bytes: 0 }
    }
}

impl Ceremony {
    pub(crate) fn new(me: u16, binding: [u8; BINDING_BYTES], mut rounds: Vec<Round>) -> Self {
        for round in &mut rounds {
            round.senders.remove(&me);
        }
        Self { me, binding, rounds }
    }

    /// Who sends us a message in this round.
    pub(crate) fn senders(&self, round: u8) -> Option<&BTreeSet<u16>> {
        self.round(round).map(|round| &round.senders)
    }

    fn round(&self, round: u8) -> Option<&Round> {
        self.rounds.get(usize::from(round).checked_sub(1)?)
    }

    /// Refuses a message that has no place in this ceremony.
    pub(crate) fn admit(&self, message: &Message) -> Result<(), ThresholdError> {
        let Message { from, to, round, ref body } = *message;
        // Step 0.1
        if !self.rounds.iter().any(|round| round.senders.contains(&from)) {
            return Err(ThresholdError::UnknownSender { from });
        }
        let expected = self.round(round).filter(|expected| expected.senders.contains(&from));
        let expected = expected.ok_or(ThresholdError::UnknownRound { from, round })?;
        // Step 0.2
        let addressee = expected.private.then_some(self.me);
        if to != addressee {
            return Err(ThresholdError::Misaddressed { from, round });
        }
        // Step 0.3
        if body.len() != BINDING_BYTES + expected.payload_bytes {
            return Err(ThresholdError::WrongLength { from, round, bytes: body.len() });
        }
        if !body.starts_with(&self.binding) {
            return Err(ThresholdError::ForeignCeremony { from, round });
        }
        Ok(())
    }

    /// A message of ours: binding, then payload.
    pub(crate) fn message(&self, round: u8, to: Option<u16>, payload: &[u8]) -> Message {
        let mut body = Zeroizing::new(Vec::with_capacity(BINDING_BYTES + payload.len()));
        body.extend(self.binding);
        body.extend(payload);
        Message { from: self.me, to, round, body }
    }
}

/// The payloads of admitted broadcasts by sender.
pub(crate) fn payloads(bodies: &Bodies) -> BTreeMap<u16, Vec<u8>> {
    bodies.iter().map(|(from, body)| (*from, payload(body).to_vec())).collect()
}

/// What follows the binding in an admitted body.
pub(crate) fn payload(body: &[u8]) -> &[u8] {
    body.get(BINDING_BYTES..).unwrap_or_default()
}
