//! Key generation: all participants of a roster make a key together, in three rounds.
//!
//! Pedersen's DKG with proofs of knowledge (FROST paper, <https://eprint.iacr.org/2020/852.pdf>, figure 1) in
//! frost-core, followed by a round in which all compare what they saw. `protocols.md`, section "Key generation", is the
//! numbered text; each file below is one stretch of it.

mod round1;
mod round2;
mod round3;

use std::collections::BTreeSet;

use rand_core::CryptoRngCore;

use crate::suite::with_suite;
use crate::{Message, Session, SignatureProfile, ThresholdError};

/// What the participants of one ceremony have agreed on beforehand. Any difference, and they refuse each other's
/// messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The scheme the key is for.
    pub profile: SignatureProfile,
    /// This participant. The only field in which participants differ.
    pub me: u16,
    /// All participants, 0-based; at most [`PARTICIPANTS_MAX`](crate::limits::PARTICIPANTS_MAX), gaps allowed.
    pub roster: BTreeSet<u16>,
    /// Signers required for a signature: from 2 to the size of the roster.
    pub threshold: u16,
    /// Names this attempt and no other: a repeated attempt needs a new one.
    pub ceremony_id: [u8; 32],
}

/// Opens the ceremony. The messages returned are for all other participants.
///
/// # Errors
///
/// [`ThresholdError::Threshold`], [`ThresholdError::TooManyParticipants`] or [`ThresholdError::NotInRoster`] if the
/// parameters make no sense.
pub fn start(
    params: Params,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.profile, C => round1::commit::<C>(params, rng))
}
