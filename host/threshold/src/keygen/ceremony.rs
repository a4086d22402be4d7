//! The agreed parameters, checked, and what they say about any message.

use std::collections::BTreeSet;

use frost_core::{Error, Identifier};
use zeroize::Zeroizing;

use super::Params;
use crate::hash::TaggedHash;
use crate::suite::{SCALAR_BYTES, SIGNATURE_BYTES, Suite, identifier, unexpected, with_suite};
use crate::{Message, SignatureProfile, ThresholdError};

/// Bytes of the binding that opens every body.
pub(super) const BINDING_BYTES: usize = 32;

/// Parameters that make sense.
// INVARIANT: 2 <= threshold <= |peers| + 1 <= PARTICIPANTS_MAX; `me` is not among `peers`. Kept by `open`.
pub(super) struct Ceremony {
    pub(super) profile: SignatureProfile,
    pub(super) me: u16,
    /// The roster without `me`.
    pub(super) peers: BTreeSet<u16>,
    pub(super) threshold: u16,
    /// Hash of the ceremony id and of everything agreed on.
    pub(super) binding: [u8; BINDING_BYTES],
}

impl Ceremony {
    pub(super) fn open(params: Params) -> Result<Self, ThresholdError> {
        let binding = bind(&params);
        let Params { profile, me, roster: mut peers, threshold, .. } = params;
        // Step 1.1
        ThresholdError::check_threshold(threshold, peers.len())?;
        if !peers.remove(&me) {
            return Err(ThresholdError::NotInRoster { participant: me });
        }
        Ok(Self { profile, me, peers, threshold, binding })
    }

    /// All participants, ascending.
    pub(super) fn roster(&self) -> BTreeSet<u16> {
        self.peers.iter().copied().chain([self.me]).collect()
    }

    /// Refuses a message that has no place in this ceremony.
    pub(super) fn admit(&self, message: &Message) -> Result<(), ThresholdError> {
        let Message { from, to, round, ref body } = *message;
        // Step 2.1
        if !self.peers.contains(&from) {
            return Err(ThresholdError::UnknownSender { from });
        }
        let bytes = self.body_bytes(round).ok_or(ThresholdError::UnknownRound { from, round })?;
        // Step 2.2
        let addressee = if round == 2 { Some(self.me) } else { None };
        if to != addressee {
            return Err(ThresholdError::Misaddressed { from, round });
        }
        // Step 2.3
        if body.len() != bytes {
            return Err(ThresholdError::WrongLength { from, round, bytes: body.len() });
        }
        if !body.starts_with(&self.binding) {
            return Err(ThresholdError::ForeignCeremony { from, round });
        }
        Ok(())
    }

    /// Length of every body of a round, in bytes; `None` if there is no such round.
    fn body_bytes(&self, round: u8) -> Option<usize> {
        let point_bytes = with_suite!(self.profile, C => C::POINT_BYTES);
        let payload = match round {
            1 => usize::from(self.threshold) * point_bytes + SIGNATURE_BYTES,
            2 => SCALAR_BYTES,
            3 => 32,
            _ => return None,
        };
        Some(BINDING_BYTES + payload)
    }

    /// A message of ours: binding, then payload.
    pub(super) fn message(&self, round: u8, to: Option<u16>, payload: &[u8]) -> Message {
        let mut body = Zeroizing::new(Vec::with_capacity(BINDING_BYTES + payload.len()));
        body.extend(self.binding);
        body.extend(payload);
        Message { from: self.me, to, round, body }
    }

    /// Translates a refusal of frost-core, whose culprits are identifiers.
    pub(super) fn blame<C: Suite>(&self, error: Error<C>) -> ThresholdError {
        let named = match &error {
            Error::InvalidProofOfKnowledge { culprit } => {
                self.participant(culprit).map(|from| ThresholdError::ProofOfKnowledge { from })
            }
            Error::InvalidSecretShare { culprit: Some(culprit) } => {
                self.participant(culprit).map(|from| ThresholdError::SecretShare { from })
            }
            _ => None,
        };
        named.unwrap_or_else(|| unexpected(error))
    }

    fn participant<C: Suite>(&self, culprit: &Identifier<C>) -> Option<u16> {
        self.peers.iter().copied().find(|peer| identifier::<C>(*peer).as_ref() == Ok(culprit))
    }
}

/// Step 1.2
fn bind(params: &Params) -> [u8; BINDING_BYTES] {
    let hash = TaggedHash::new("svc/keygen/v1")
        .bytes(&params.ceremony_id)
        .bytes(params.profile.name().as_bytes())
        .number(params.threshold);
    params.roster.iter().fold(hash, |hash, participant| hash.number(*participant)).finish()
}

/// What follows the binding in an admitted body.
pub(super) fn payload(body: &[u8]) -> &[u8] {
    body.get(BINDING_BYTES..).unwrap_or_default()
}
