//! Repair: helpers give a participant that lost its share this very share again, and learn nothing of it.
//!
//! The repairable threshold scheme (Laing and Stinson, <https://eprint.iacr.org/2017/1155>), with commitments to every
//! value, so that whoever sends a wrong one is named. `protocols.md`, section "Repair", is the numbered text.
//!
//! The target gets a second copy of a live share: if the first may be in other hands, redistribute straight after.

mod agreed;
mod help;
mod restore;

use std::collections::BTreeSet;

use rand_core::CryptoRngCore;

use crate::suite::with_suite;
use crate::{KeyShare, Message, PublicKeys, Session, ThresholdError};

/// What the participants of one ceremony have agreed on beforehand. Any difference, and they refuse each other's
/// messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The key in its current epoch, which the repair does not change.
    pub keys: PublicKeys,
    /// This participant: a helper or the target. The only field in which participants differ.
    pub me: u16,
    /// Whose share is to be repaired; no helper.
    pub target: u16,
    /// Holders that help: at least the threshold.
    pub helpers: BTreeSet<u16>,
    /// Names this attempt and no other: a repeated attempt needs a new one.
    pub ceremony_id: [u8; 32],
}

/// Opens the ceremony. The messages returned are for all other participants, helpers and target.
///
/// A helper gives its `share` of the current epoch; nobody else's is looked at. The target ends with an output
/// that has its share, each helper with one that has none: it keeps its own.
///
/// # Errors
///
/// [`ThresholdError::Threshold`], [`NotInRoster`](ThresholdError::NotInRoster) or
/// [`TargetHelps`](ThresholdError::TargetHelps) if the parameters make no sense;
/// [`ShareMissing`](ThresholdError::ShareMissing), [`ForeignShare`](ThresholdError::ForeignShare) or
/// [`ProfileMismatch`](ThresholdError::ProfileMismatch) if a helper's share is not the one of `keys`.
pub fn start(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.keys.profile(), C => help::start::<C>(params, share, rng))
}
