//! Rounds 2 and 3: check the points received, put them together, and tell everybody what we saw.

use std::collections::BTreeMap;

use frost_core::{Element, Field, Group, Scalar};
use zeroize::Zeroizing;

use super::agreed::Agreed;
use crate::ceremony::Ceremony;
use crate::echo;
use crate::inbox::Bodies;
use crate::opening::hear;
use crate::polynomial::{evaluate, lagrange};
use crate::session::{Stage, Step};
use crate::suite::{ScalarField, Suite, point_bytes};
use crate::{KeyShare, Output, PublicKeys, ThresholdError};

/// The commitments are good; the dealers' points for us are awaited. Nobody's, if we only deal.
pub(super) struct AwaitPoints<C: Suite> {
    pub(super) agreed: Agreed,
    /// The round-1 payloads of all dealers, canonical.
    pub(super) broadcasts: BTreeMap<u16, Vec<u8>>,
    /// The same, decoded.
    pub(super) commitments: BTreeMap<u16, Vec<Element<C>>>,
    /// Our point of our own polynomial, if we deal and are in the new roster.
    pub(super) own_point: Option<Zeroizing<Scalar<C>>>,
}

impl<C: Suite> Stage for AwaitPoints<C> {
    /// Takes the round-2 bodies of all other dealers.
    fn step(mut self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut points = self.check(ceremony.me, bodies)?;
        if let Some(own) = self.own_point.take() {
            points.insert(ceremony.me, own);
        }
        let weights = lagrange::<C>(&self.agreed.dealers, None)?;
        let keys = self.keys(&weights)?;
        let share = if self.agreed.roster.contains(&ceremony.me) {
            Some(combine::<C>(&weights, &points, ceremony.me, &keys)?)
        } else {
            None
        };
        // Step 3.1
        let transcript =
            echo::transcript("svc/redistribute-transcript/v1", ceremony, &self.broadcasts, keys.group());
        let output = Output { share, keys, transcript };
        let (echo, stage) = echo::exchange(ceremony, transcript, Step::Done(Box::new(output)));
        Ok(Step::Next(vec![echo], stage))
    }
}

impl<C: Suite> AwaitPoints<C> {
    /// Steps 2.3 and 2.4: the points for us, by dealer.
    fn check(&self, me: u16, bodies: &Bodies) -> Result<BTreeMap<u16, Zeroizing<Scalar<C>>>, ThresholdError> {
        let mut points = BTreeMap::new();
        for (&from, body) in bodies {
            let terms = self.commitments.get(&from).map(Vec::as_slice).unwrap_or_default();
            points.insert(from, hear::<C>(from, 2, body, &evaluate::<C>(terms, me))?);
        }
        Ok(points)
    }

    /// Step 2.5: the public keys of the new epoch.
    fn keys(&self, weights: &BTreeMap<u16, Scalar<C>>) -> Result<PublicKeys, ThresholdError> {
        let mut terms = vec![C::Group::identity(); self.agreed.threshold.into()];
        for (dealer, weight) in weights {
            for (sum, term) in terms.iter_mut().zip(self.commitments.get(dealer).into_iter().flatten()) {
                *sum = *sum + *term * *weight;
            }
        }
        let group_key = terms.first().and_then(point_bytes::<C>);
        if group_key.as_deref() != Some(self.agreed.keys.verifying_key()) {
            return Err(ThresholdError::MalformedMaterial { what: "public keys" });
        }
        let share =
            |participant: &u16| Some((*participant, point_bytes::<C>(&evaluate::<C>(&terms, *participant))?));
        let shares: Option<BTreeMap<u16, Vec<u8>>> = self.agreed.roster.iter().map(share).collect();
        let shares = shares.ok_or(ThresholdError::MalformedMaterial { what: "public keys" })?;
        Ok(self.agreed.keys.next_epoch(self.agreed.threshold, shares))
    }
}

/// Step 2.6: our share of the new epoch.
fn combine<C: Suite>(
    weights: &BTreeMap<u16, Scalar<C>>,
    points: &BTreeMap<u16, Zeroizing<Scalar<C>>>,
    me: u16,
    keys: &PublicKeys,
) -> Result<KeyShare, ThresholdError> {
    let mut secret = Zeroizing::new(ScalarField::<C>::zero());
    for (dealer, weight) in weights {
        let point = points.get(dealer).ok_or(ThresholdError::NotInRoster { participant: *dealer })?;
        *secret = *secret + **point * *weight;
    }
    KeyShare::from_scalar::<C>(me, &secret, keys)
}
