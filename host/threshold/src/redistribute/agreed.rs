//! The agreed parameters, checked, and the rounds that follow from them.

use std::collections::BTreeSet;

use super::Params;
use crate::ceremony::{Ceremony, Round};
use crate::echo::TRANSCRIPT_BYTES;
use crate::hash::TaggedHash;
use crate::suite::{SCALAR_BYTES, Suite, identifier};
use crate::{PublicKeys, ThresholdError};

/// Parameters that make sense.
// INVARIANT: 2 <= threshold <= |roster| <= PARTICIPANTS_MAX, and all of the roster have identifiers; `dealers` hold
// shares of `keys` and are enough to sign. Kept by `open`.
pub(super) struct Agreed {
    pub(super) keys: PublicKeys,
    pub(super) dealers: BTreeSet<u16>,
    pub(super) roster: BTreeSet<u16>,
    pub(super) threshold: u16,
}

impl Agreed {
    pub(super) fn open<C: Suite>(params: Params) -> Result<(Self, Ceremony), ThresholdError> {
        let binding = bind(&params);
        let Params { keys, me, dealers, roster, threshold, .. } = params;
        // Step 1.1
        ThresholdError::check_threshold(threshold, roster.len())?;
        roster.iter().try_for_each(|participant| identifier::<C>(*participant).map(drop))?;
        keys.check_quorum(&dealers)?;
        if !dealers.contains(&me) && !roster.contains(&me) {
            return Err(ThresholdError::NotInRoster { participant: me });
        }
        let everybody = dealers.union(&roster).copied().collect();
        let points =
            if roster.contains(&me) { Round::private(&dealers, SCALAR_BYTES) } else { Round::silent() };
        let rounds = vec![
            Round::broadcast(&dealers, usize::from(threshold) * C::POINT_BYTES),
            points,
            Round::broadcast(&everybody, TRANSCRIPT_BYTES),
        ];
        let ceremony = Ceremony::new(me, binding, rounds);
        Ok((Self { keys, dealers, roster, threshold }, ceremony))
    }
}

/// Step 1.2
fn bind(params: &Params) -> [u8; 32] {
    let Params { keys, me: _, dealers, roster, threshold, ceremony_id } = params;
    let hash = TaggedHash::new("svc/redistribute/v1").bytes(ceremony_id).bytes(&keys.to_bytes());
    hash.number(*threshold).set(dealers).set(roster).finish()
}
