//! Rounds 1 and 2: each dealer shares its share, and everybody checks that it is this that was shared.

use std::collections::BTreeMap;

use frost_core::Scalar;
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use super::Params;
use super::agreed::Agreed;
use super::receive::AwaitPoints;
use crate::ceremony::{Ceremony, payloads};
use crate::inbox::Bodies;
use crate::opening::tell;
use crate::polynomial::Polynomial;
use crate::session::{Stage, Step};
use crate::suite::{Suite, points, points_bytes};
use crate::{KeyShare, Message, Session, ThresholdError};

/// What we had to say is out; the dealers' commitments are awaited.
struct AwaitCommitments<C: Suite> {
    agreed: Agreed,
    /// If we deal.
    own: Option<Own<C>>,
}

/// What a dealer keeps of its own dealing.
struct Own<C: Suite> {
    /// The payload of our own broadcast.
    commitments: Vec<u8>,
    /// Our point of our own polynomial, if we are in the new roster.
    point: Option<Zeroizing<Scalar<C>>>,
}

pub(super) fn start<C: Suite>(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let (agreed, ceremony) = Agreed::open::<C>(params)?;
    let (mut send, mut own) = (Vec::new(), None);
    if agreed.dealers.contains(&ceremony.me) {
        // Step 1.3
        let secret = KeyShare::required(share, ceremony.me, &agreed.keys)?.scalar::<C>()?;
        let polynomial = Polynomial::<C>::random(&secret, agreed.threshold, rng);
        own = Some(deal(&agreed, &ceremony, &polynomial, &mut send)?);
    }
    Ok((Session::open(ceremony, AwaitCommitments { agreed, own }), send))
}

/// Steps 1.4 and 1.5
fn deal<C: Suite>(
    agreed: &Agreed,
    ceremony: &Ceremony,
    polynomial: &Polynomial<C>,
    send: &mut Vec<Message>,
) -> Result<Own<C>, ThresholdError> {
    let commitments = points_bytes::<C>(&polynomial.commitments())?;
    send.push(ceremony.message(1, None, &commitments));
    let mut own = Own { commitments, point: None };
    for &participant in &agreed.roster {
        let point = polynomial.at(participant)?;
        if participant == ceremony.me {
            own.point = Some(point);
        } else {
            send.push(tell::<C>(ceremony, 2, participant, &point));
        }
    }
    Ok(own)
}

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Takes the round-1 bodies of all other dealers.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let Self { agreed, own } = *self;
        let mut broadcasts = payloads(bodies);
        let mut own_point = None;
        if let Some(own) = own {
            broadcasts.insert(ceremony.me, own.commitments);
            own_point = own.point;
        }
        let mut commitments = BTreeMap::new();
        for (&from, bytes) in &broadcasts {
            // Step 2.1
            let decoded = points::<C>(bytes).ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
            // Step 2.2
            if !agreed.keys.verifying_shares().get(&from).is_some_and(|share| bytes.starts_with(share)) {
                return Err(ThresholdError::ForeignSecret { from });
            }
            commitments.insert(from, decoded);
        }
        Ok(Step::Next(Vec::new(), Box::new(AwaitPoints::<C> { agreed, broadcasts, commitments, own_point })))
    }
}
