//! Rounds 1 and 2: each helper cuts its part of the lost share into pieces, one for each helper.

use std::collections::BTreeMap;

use frost_core::{Element, Field, Group, Scalar};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use super::Params;
use super::agreed::Agreed;
use super::restore::AwaitDeltas;
use crate::ceremony::{Ceremony, payloads};
use crate::inbox::Bodies;
use crate::opening::tell;
use crate::polynomial::lagrange;
use crate::session::{Stage, Step};
use crate::suite::{ScalarField, Suite, point, points, points_bytes};
use crate::{KeyShare, Message, Session, ThresholdError};

/// What we had to say is out; the helpers' commitments are awaited.
struct AwaitCommitments<C: Suite> {
    agreed: Agreed,
    /// If we help.
    own: Option<Own<C>>,
}

/// What a helper keeps of its own pieces.
struct Own<C: Suite> {
    /// The payload of our own broadcast.
    commitments: Vec<u8>,
    /// The piece for ourselves.
    delta: Zeroizing<Scalar<C>>,
}

/// The pieces of one helper, by helper.
type Deltas<C> = BTreeMap<u16, Zeroizing<Scalar<C>>>;

pub(super) fn start<C: Suite>(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let (agreed, ceremony) = Agreed::open::<C>(params)?;
    let (mut send, mut own) = (Vec::new(), None);
    if agreed.helpers.contains(&ceremony.me) {
        let secret = KeyShare::required(share, ceremony.me, &agreed.keys)?.scalar::<C>()?;
        let deltas = cut::<C>(&agreed, ceremony.me, &secret, rng)?;
        own = Some(publish::<C>(&ceremony, deltas, &mut send)?);
    }
    Ok((Session::open(ceremony, AwaitCommitments { agreed, own }), send))
}

/// Step 1.3
fn cut<C: Suite>(
    agreed: &Agreed,
    me: u16,
    secret: &Scalar<C>,
    rng: &mut impl CryptoRngCore,
) -> Result<Deltas<C>, ThresholdError> {
    let weights = lagrange::<C>(&agreed.helpers, Some(agreed.target))?;
    let weight = *weights.get(&me).ok_or(ThresholdError::NotInRoster { participant: me })?;
    let mut rest = Zeroizing::new(*secret * weight);
    let mut deltas = Deltas::<C>::new();
    for &helper in agreed.helpers.iter().filter(|helper| **helper != me) {
        let delta = Zeroizing::new(ScalarField::<C>::random(rng));
        *rest = *rest - *delta;
        deltas.insert(helper, delta);
    }
    deltas.insert(me, rest);
    Ok(deltas)
}

/// Steps 1.4 and 1.5
fn publish<C: Suite>(
    ceremony: &Ceremony,
    deltas: Deltas<C>,
    send: &mut Vec<Message>,
) -> Result<Own<C>, ThresholdError> {
    let commitments: Vec<Element<C>> = deltas.values().map(|delta| C::generator_times(delta)).collect();
    let commitments = points_bytes::<C>(&commitments)?;
    send.push(ceremony.message(1, None, &commitments));
    let mut own = None;
    for (helper, delta) in deltas {
        if helper == ceremony.me {
            own = Some(delta);
        } else {
            send.push(tell::<C>(ceremony, 2, helper, &delta));
        }
    }
    let delta = own.ok_or(ThresholdError::NotInRoster { participant: ceremony.me })?;
    Ok(Own { commitments, delta })
}

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Takes the round-1 bodies of all other helpers.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let Self { agreed, own } = *self;
        let mut broadcasts = payloads(bodies);
        let mut own_delta = None;
        if let Some(own) = own {
            broadcasts.insert(ceremony.me, own.commitments);
            own_delta = Some(own.delta);
        }
        let weights = lagrange::<C>(&agreed.helpers, Some(agreed.target))?;
        let mut commitments = BTreeMap::new();
        for (&from, bytes) in &broadcasts {
            // Step 2.1
            let decoded = points::<C>(bytes).ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
            // Step 2.2
            let sum = decoded.iter().fold(C::Group::identity(), |sum, delta| sum + *delta);
            let share = agreed.keys.verifying_shares().get(&from).and_then(|share| point::<C>(share));
            let part = share.zip(weights.get(&from)).map(|(share, weight)| share * *weight);
            if part != Some(sum) {
                return Err(ThresholdError::ForeignSecret { from });
            }
            commitments.insert(from, agreed.helpers.iter().copied().zip(decoded).collect());
        }
        Ok(Step::Next(Vec::new(), Box::new(AwaitDeltas::<C> { agreed, broadcasts, commitments, own_delta })))
    }
}
