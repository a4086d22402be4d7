//! The agreed parameters, checked, and the rounds that follow from them.

use std::collections::BTreeSet;

use super::Params;
use crate::ceremony::{Ceremony, Round};
use crate::echo::TRANSCRIPT_BYTES;
use crate::hash::TaggedHash;
use crate::suite::{SCALAR_BYTES, Suite};
use crate::{PublicKeys, ThresholdError};

/// Parameters that make sense.
// INVARIANT: `helpers` and `target` hold shares of `keys`; `target` is no helper; `helpers` are enough to sign. Kept by
// `open`.
pub(super) struct Agreed {
    pub(super) keys: PublicKeys,
    pub(super) target: u16,
    pub(super) helpers: BTreeSet<u16>,
}

impl Agreed {
    pub(super) fn open<C: Suite>(params: Params) -> Result<(Self, Ceremony), ThresholdError> {
        let binding = bind(&params);
        let Params { keys, me, target, helpers, .. } = params;
        // Step 1.1
        keys.check_quorum(&helpers)?;
        keys.check_holder(target)?;
        if helpers.contains(&target) {
            return Err(ThresholdError::TargetHelps { participant: target });
        }
        if me != target && !helpers.contains(&me) {
            return Err(ThresholdError::NotInRoster { participant: me });
        }
        let everybody = helpers.iter().copied().chain([target]).collect();
        let pieces = Round::private(&helpers, SCALAR_BYTES);
        let (deltas, sigmas) =
            if me == target { (Round::silent(), pieces) } else { (pieces, Round::silent()) };
        let rounds = vec![
            Round::broadcast(&helpers, helpers.len() * C::POINT_BYTES),
            deltas,
            Round::broadcast(&everybody, TRANSCRIPT_BYTES),
            sigmas,
        ];
        let ceremony = Ceremony::new(me, binding, rounds);
        Ok((Self { keys, target, helpers }, ceremony))
    }
}

/// Step 1.2
fn bind(params: &Params) -> [u8; 32] {
    let Params { keys, me: _, target, helpers, ceremony_id } = params;
    let hash = TaggedHash::new("svc/repair/v1").bytes(ceremony_id).bytes(&keys.to_bytes());
    hash.number(*target).set(helpers).finish()
}
