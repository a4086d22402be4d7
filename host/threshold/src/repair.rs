//! Repair: helpers restore the share that a participant lost, and learn nothing about it.
//!
//! The repairable threshold scheme (Laing and Stinson, <https://eprint.iacr.org/2017/1155>), with a commitment to every
//! value, so that the sender of a wrong value is named. Steps are numbered as in `protocols.md`, section "Repair".
//!
//! The target gets the same share again. If someone else may have the lost one, redistribute right afterwards.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::{Element, Field, Group, Scalar};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use crate::ceremony::{Ceremony, Round, payloads, verified_scalar};
use crate::echo::{self, TRANSCRIPT_BYTES};
use crate::hash::TaggedHash;
use crate::inbox::Bodies;
use crate::polynomial::lagrange;
use crate::session::{Stage, Step};
use crate::suite::{SCALAR_BYTES, ScalarField, Suite, point, points, points_bytes, with_suite};
use crate::{KeyShare, Message, Output, PublicKeys, Session, ThresholdError};

/// The parameters, on which all participants of a ceremony agreed beforehand. Participants whose parameters differ, except in
/// `me`, reject each other's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The public keys of the current epoch, which the repair does not change.
    pub keys: PublicKeys,
    /// This participant: a helper or the target.
    pub me: u16,
    /// The participant whose share is restored; not a helper.
    pub target: u16,
    /// Holders that help: at least as many as the threshold.
    pub helpers: BTreeSet<u16>,
    /// Must be unique to this attempt.
    pub ceremony_id: [u8; 32],
}

/// Starts the ceremony. Returns the first messages; only helpers have any.
///
/// A helper passes its `share` of the current epoch; the `share` of the target is ignored. The target's output has its
/// restored share. A helper's output has no share: it keeps the one it has.
///
/// # Errors
///
/// [`ThresholdError::Threshold`], [`NotInRoster`](ThresholdError::NotInRoster) or
/// [`TargetIsHelper`](ThresholdError::TargetIsHelper) if the parameters are invalid;
/// [`ShareMissing`](ThresholdError::ShareMissing), [`ShareMismatch`](ThresholdError::ShareMismatch) or
/// [`ProfileMismatch`](ThresholdError::ProfileMismatch) if a helper's share is not its share of `keys`.
pub fn start(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.keys.profile(), C => start_helping::<C>(params, share, rng))
}

fn start_helping<C: Suite>(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let ceremony = open::<C>(&params)?;
    let (mut send, mut own) = (Vec::new(), None);
    if params.helpers.contains(&ceremony.me) {
        let secret = KeyShare::check_required(share, ceremony.me, &params.keys)?.scalar::<C>()?;
        let deltas = split::<C>(&params, &secret, rng)?;
        own = Some(send_pieces::<C>(&ceremony, deltas, &mut send)?);
    }
    Ok((Session::new(ceremony, AwaitCommitments { params, own }), send))
}

/// Checks the parameters and derives the rounds from them.
fn open<C: Suite>(params: &Params) -> Result<Ceremony, ThresholdError> {
    let &Params { ref keys, me, target, ref helpers, ref ceremony_id } = params;
    // Step 1.1
    keys.check_quorum(helpers)?;
    keys.check_holder(target)?;
    if helpers.contains(&target) {
        return Err(ThresholdError::TargetIsHelper { participant: target });
    }
    if me != target && !helpers.contains(&me) {
        return Err(ThresholdError::NotInRoster { participant: me });
    }
    // Step 1.2
    let hash = TaggedHash::new("svc/repair/v1").bytes(ceremony_id).bytes(&keys.to_bytes());
    let binding = hash.number(target).set(helpers).finish();
    let everyone = helpers.iter().copied().chain([target]).collect();
    let from_helpers = Round::private(helpers, SCALAR_BYTES);
    let (deltas, sigmas) = if me == target {
        (Round::no_messages(), from_helpers)
    } else {
        (from_helpers, Round::no_messages())
    };
    let rounds = vec![
        Round::broadcast(helpers, helpers.len() * C::POINT_BYTES),
        deltas,
        Round::broadcast(&everyone, TRANSCRIPT_BYTES),
        sigmas,
    ];
    Ok(Ceremony::new(me, binding, rounds))
}

/// The pieces of one helper, by the helper that each piece is for.
type Deltas<C> = BTreeMap<u16, Zeroizing<Scalar<C>>>;

/// Step 1.3: splits the weighted share into random pieces, one for each helper.
fn split<C: Suite>(
    params: &Params,
    secret: &Scalar<C>,
    rng: &mut impl CryptoRngCore,
) -> Result<Deltas<C>, ThresholdError> {
    let me = params.me;
    let weights = lagrange::<C>(&params.helpers, Some(params.target))?;
    let weight = *weights.get(&me).ok_or(ThresholdError::NotInRoster { participant: me })?;
    let mut rest = Zeroizing::new(*secret * weight);
    let mut deltas = Deltas::<C>::new();
    for &helper in params.helpers.iter().filter(|helper| **helper != me) {
        let delta = Zeroizing::new(ScalarField::<C>::random(rng));
        *rest = *rest - *delta;
        deltas.insert(helper, delta);
    }
    deltas.insert(me, rest);
    Ok(deltas)
}

/// What a helper keeps of its own pieces.
struct Own<C: Suite> {
    /// The payload of our own broadcast.
    commitments: Vec<u8>,
    /// The piece for ourselves.
    delta: Zeroizing<Scalar<C>>,
}

/// Steps 1.4 and 1.5: the messages with commitments and pieces.
fn send_pieces<C: Suite>(
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
            send.push(ceremony.scalar_message::<C>(2, helper, &delta));
        }
    }
    let delta = own.ok_or(ThresholdError::NotInRoster { participant: ceremony.me })?;
    Ok(Own { commitments, delta })
}

/// Waits for the helpers' commitments, after sending ours.
struct AwaitCommitments<C: Suite> {
    params: Params,
    /// `None` if we are the target.
    own: Option<Own<C>>,
}

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Checks that each helper's commitments are to pieces of its current share.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let Self { params, own } = *self;
        let mut broadcasts = payloads(bodies);
        let mut own_delta = None;
        if let Some(own) = own {
            broadcasts.insert(ceremony.me, own.commitments);
            own_delta = Some(own.delta);
        }
        let weights = lagrange::<C>(&params.helpers, Some(params.target))?;
        let mut commitments = BTreeMap::new();
        for (&from, bytes) in &broadcasts {
            // Step 2.1
            let decoded = points::<C>(bytes).ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
            // Step 2.2
            let sum = decoded.iter().fold(C::Group::identity(), |sum, delta| sum + *delta);
            let share = params.keys.verifying_shares().get(&from).and_then(|share| point::<C>(share));
            let part = share.zip(weights.get(&from)).map(|(share, weight)| share * *weight);
            if part != Some(sum) {
                return Err(ThresholdError::CommitmentMismatch { from });
            }
            commitments.insert(from, params.helpers.iter().copied().zip(decoded).collect());
        }
        Ok(Step::Next(Vec::new(), Box::new(AwaitDeltas::<C> { params, broadcasts, commitments, own_delta })))
    }
}

/// Commitments to the pieces of one helper, by the helper that each piece is for.
type Commitments<C> = BTreeMap<u16, Element<C>>;

/// Waits for the other helpers' pieces for us. The target gets none.
struct AwaitDeltas<C: Suite> {
    params: Params,
    /// The round-1 payloads of all helpers.
    broadcasts: BTreeMap<u16, Vec<u8>>,
    /// The same, decoded, by helper.
    commitments: BTreeMap<u16, Commitments<C>>,
    /// The piece that we keep for ourselves, if we help.
    own_delta: Option<Zeroizing<Scalar<C>>>,
}

impl<C: Suite> Stage for AwaitDeltas<C> {
    /// Rounds 3 and 4: a helper sends the sum of the pieces it has to the target; all send the transcript.
    fn step(mut self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let sigma = match self.own_delta.take() {
            Some(own) => Some(self.sum(ceremony, own, bodies)?),
            None => None,
        };
        let Self { params, broadcasts, commitments, .. } = *self;
        // Step 3.1
        let transcript =
            echo::transcript("svc/repair-transcript/v1", ceremony, &broadcasts, params.keys.group());
        let then = if sigma.is_some() {
            Step::Done(Box::new(Output { share: None, keys: params.keys, transcript }))
        } else {
            Step::Next(Vec::new(), Box::new(AwaitSigmas::<C> { keys: params.keys, commitments, transcript }))
        };
        let (echo, stage) = echo::exchange(ceremony, transcript, then);
        Ok(Step::Next(sigma.into_iter().chain([echo]).collect(), stage))
    }
}

impl<C: Suite> AwaitDeltas<C> {
    /// Steps 2.3 to 2.5
    fn sum(
        &self,
        ceremony: &Ceremony,
        own: Zeroizing<Scalar<C>>,
        bodies: &Bodies,
    ) -> Result<Message, ThresholdError> {
        let mut sigma = own;
        for (&from, body) in bodies {
            let committed = self.commitments.get(&from).and_then(|pieces| pieces.get(&ceremony.me));
            let committed = committed.ok_or(ThresholdError::UnknownSender { from })?;
            let delta = verified_scalar::<C>(from, 2, body, committed)?;
            *sigma = *sigma + *delta;
        }
        Ok(ceremony.scalar_message::<C>(4, self.params.target, &sigma))
    }
}

/// Waits for the helpers' sums, at the target and after the echo.
struct AwaitSigmas<C: Suite> {
    keys: PublicKeys,
    commitments: BTreeMap<u16, Commitments<C>>,
    transcript: [u8; 32],
}

impl<C: Suite> Stage for AwaitSigmas<C> {
    /// Checks the sums and adds them up to the restored share.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut secret = Zeroizing::new(ScalarField::<C>::zero());
        for (&from, body) in bodies {
            // Step 4.1
            let pieces = self.commitments.values().filter_map(|pieces| pieces.get(&from));
            let committed = pieces.fold(C::Group::identity(), |sum, delta| sum + *delta);
            let sigma = verified_scalar::<C>(from, 4, body, &committed)?;
            *secret = *secret + *sigma;
        }
        // Step 4.2
        let Self { keys, transcript, .. } = *self;
        let share = KeyShare::from_scalar::<C>(ceremony.me, &secret, &keys)?;
        Ok(Step::Done(Box::new(Output { share: Some(share), keys, transcript })))
    }
}
