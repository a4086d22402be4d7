//! Redistribution: holders of a key deal it out anew, to the same roster (a refresh) or to another (a reshare).
//!
//! Verifiable secret redistribution (Desmedt and Jajodia 1997; checks after Wong, Wang and Wing 2002). The key stays the same; all shares change, and old
//! shares do not combine with new ones. `protocols.md`, section "Redistribution", is the numbered text.
//!
//! It does not revoke: a quorum of old shares that were not erased still signs.

mod agreed;
mod deal;
mod receive;

use std::collections::BTreeSet;

use rand_core::CryptoRngCore;

use crate::suite::with_suite;
use crate::{KeyShare, Message, PublicKeys, Session, ThresholdError};

/// What the participants of one ceremony have agreed on beforehand. Any difference, and they refuse each other's
/// messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The key in its current epoch. Who joins has it from the old roster, not from whoever carries messages.
    pub keys: PublicKeys,
    /// This participant: a dealer, in the new roster, or both. The only field in which participants differ.
    pub me: u16,
    /// Holders that deal their shares out: at least the current threshold.
    pub dealers: BTreeSet<u16>,
    /// All participants of the new epoch, 0-based; at most
    /// [`PARTICIPANTS_MAX`](crate::limits::PARTICIPANTS_MAX), gaps allowed.
    pub roster: BTreeSet<u16>,
    /// Signers that the new epoch requires: from 2 to the size of its roster.
    pub threshold: u16,
    /// Names this attempt and no other: a repeated attempt needs a new one.
    pub ceremony_id: [u8; 32],
}

/// Opens the ceremony. The messages returned are for all other participants, dealers and new roster.
///
/// A dealer gives its `share` of the current epoch; nobody else's is looked at. A dealer outside the new roster
/// ends with an output without a share.
///
/// # Errors
///
/// [`ThresholdError::Threshold`], [`TooManyParticipants`](ThresholdError::TooManyParticipants) or
/// [`NotInRoster`](ThresholdError::NotInRoster) if the parameters make no sense;
/// [`ShareMissing`](ThresholdError::ShareMissing), [`ForeignShare`](ThresholdError::ForeignShare) or
/// [`ProfileMismatch`](ThresholdError::ProfileMismatch) if a dealer's share is not the one of `keys`.
pub fn start(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.keys.profile(), C => deal::start::<C>(params, share, rng))
}
