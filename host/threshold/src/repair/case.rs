//! The case of a repair, on which alone the helpers' contributions depend, and the comparison with those that were admitted.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::{Element, Scalar};
use zeroize::Zeroizing;

use crate::hash::TaggedHash;
use crate::polynomial::lagrange;
use crate::proof;
use crate::suite::{Suite, hash_to_scalar, points_bytes, secret_bytes, with_suite};
use crate::{KeyShare, PublicKeys, ThresholdError};

/// The pieces of one helper, by the helper that each piece is for.
pub(super) type Deltas<C> = BTreeMap<u16, Zeroizing<Scalar<C>>>;

/// What a repair is of and for. A helper's contribution to a case is always the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The public keys of the current epoch, which the repair does not change.
    pub keys: PublicKeys,
    /// The participant whose share is restored; not a helper.
    pub target: u16,
    /// Holders that help: at least as many as the threshold.
    pub helpers: BTreeSet<u16>,
    /// Distinguishes this case from others with the same members: a hash of the epoch, and of the reason.
    pub reference: [u8; 32],
}

/// The contributions that were admitted. A ceremony with others fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// The content id of each helper's contribution, by helper ascending; empty if they are not compared.
    pub contributions: Vec<[u8; 32]>,
    /// The root over the content ids; `None` if it is not compared.
    pub root: Option<[u8; 32]>,
}

impl Case {
    /// Step 1.1: checks that helpers and target are holders, and the helpers enough.
    pub(super) fn check(&self) -> Result<(), ThresholdError> {
        self.keys.check_quorum(&self.helpers)?;
        self.keys.check_holder(self.target)?;
        if self.helpers.contains(&self.target) {
            return Err(ThresholdError::TargetIsHelper { participant: self.target });
        }
        Ok(())
    }

    /// Step 1.2: the hash of the case.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let hash = TaggedHash::new("svc/repair-case/v1").bytes(&self.reference).bytes(&self.keys.to_bytes());
        hash.number(self.target).set(&self.helpers).finish()
    }

    /// The content id of the contribution that the owner of this share makes. It reveals nothing of the share.
    ///
    /// # Errors
    ///
    /// Those of [`start`](super::start), except for the ones of the admitted contributions.
    pub fn contribution(&self, share: &KeyShare) -> Result<[u8; 32], ThresholdError> {
        self.check()?;
        let me = share.participant();
        let share = KeyShare::check_required(Some(share), me, &self.keys)?;
        with_suite!(self.keys.profile(), C => {
            let deltas = self.split::<C>(me, &*share.scalar::<C>()?)?;
            Ok(self.content_id(me, &commit::<C>(&deltas)?))
        })
    }

    /// The root over the content ids of the contributions, by helper ascending.
    #[must_use]
    pub fn root(&self, contributions: &[[u8; 32]]) -> [u8; 32] {
        let hash = TaggedHash::new("svc/repair-contributions/v1").bytes(&self.hash());
        let by_helper = self.helpers.iter().zip(contributions);
        by_helper.fold(hash, |hash, (helper, id)| hash.number(*helper).bytes(id)).finish()
    }

    /// Step 1.3: splits the weighted share into pieces, one for each helper. All but the helper's own are a hash of its share and
    /// the case, as deterministic nonces are, so that no state is kept from one call to the next.
    pub(super) fn split<C: Suite>(&self, me: u16, secret: &Scalar<C>) -> Result<Deltas<C>, ThresholdError> {
        let weights = lagrange::<C>(&self.helpers, Some(self.target))?;
        let weight = *weights.get(&me).ok_or(ThresholdError::NotInRoster { participant: me })?;
        let mut rest = Zeroizing::new(*secret * weight);
        let (case, encoded) = (self.hash(), secret_bytes::<C>(secret));
        let mut deltas = Deltas::<C>::new();
        for &helper in self.helpers.iter().filter(|helper| **helper != me) {
            let hash = TaggedHash::new("svc/repair-piece/v1").bytes(encoded.as_slice()).bytes(&case);
            let seed = Zeroizing::new(hash.number(helper).finish());
            let delta = Zeroizing::new(hash_to_scalar::<C>(seed.as_slice())?);
            *rest = *rest - *delta;
            deltas.insert(helper, delta);
        }
        deltas.insert(me, rest);
        Ok(deltas)
    }

    /// Step 1.4: the content id of a helper's commitments.
    pub(super) fn content_id(&self, helper: u16, commitments: &[u8]) -> [u8; 32] {
        let hash = TaggedHash::new("svc/repair-contribution/v1").bytes(&self.hash());
        hash.number(helper).bytes(commitments).finish()
    }
}

/// The encoded commitments to the pieces.
pub(super) fn commit<C: Suite>(deltas: &Deltas<C>) -> Result<Vec<u8>, ThresholdError> {
    let commitments: Vec<Element<C>> = deltas.values().map(|delta| C::generator_times(delta)).collect();
    points_bytes::<C>(&commitments)
}

impl Admitted {
    /// Step 1.5: checks what is known before any message, so that an honest helper sends none that is not admitted. `own` is our
    /// content id if we help.
    pub(super) fn check_own(
        &self,
        case: &Case,
        me: u16,
        own: Option<[u8; 32]>,
    ) -> Result<(), ThresholdError> {
        let Self { contributions, root } = self;
        if contributions.is_empty() {
            return Ok(());
        }
        let by_helper: BTreeMap<_, _> = case.helpers.iter().copied().zip(contributions).collect();
        let is_admitted = own.is_none_or(|own| by_helper.get(&me) == Some(&&own));
        let is_root = root.is_none_or(|root| root == case.root(contributions));
        if contributions.len() == case.helpers.len() && is_admitted && is_root {
            return Ok(());
        }
        Err(ThresholdError::NotAdmitted)
    }

    /// Step 2.4: compares one helper's contribution, by the payload of its broadcast.
    pub(super) fn check_one(&self, case: &Case, helper: u16, payload: &[u8]) -> Result<(), ThresholdError> {
        let admitted = case.helpers.iter().zip(&self.contributions).find(|(other, _)| **other == helper);
        let id = case.content_id(helper, proof::commitments(payload));
        if admitted.is_none_or(|(_, admitted)| *admitted == id) {
            return Ok(());
        }
        Err(ThresholdError::ContributionMismatch { helpers: vec![helper] })
    }

    /// Step 2.4: compares the helpers' contributions, by the payloads of their broadcasts. Names the helpers whose contribution is
    /// another one.
    pub(super) fn check_all(
        &self,
        case: &Case,
        broadcasts: &BTreeMap<u16, Vec<u8>>,
    ) -> Result<(), ThresholdError> {
        let id = |(helper, payload): (&u16, &Vec<u8>)| {
            (*helper, case.content_id(*helper, proof::commitments(payload)))
        };
        let found: BTreeMap<_, _> = broadcasts.iter().map(id).collect();
        let differing = found.iter().zip(&self.contributions).filter(|((_, id), admitted)| id != admitted);
        let differing = differing.map(|((helper, _), _)| *helper).collect();
        ThresholdError::unless_empty(differing, |helpers| ThresholdError::ContributionMismatch { helpers })?;
        let root = case.root(&found.into_values().collect::<Vec<_>>());
        if self.root.is_none_or(|admitted| admitted == root) {
            Ok(())
        } else {
            Err(ThresholdError::NotAdmitted)
        }
    }
}
