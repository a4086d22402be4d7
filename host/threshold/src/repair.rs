//! Repair: helpers restore the share that a participant lost, and learn nothing about it.
//!
//! The repairable threshold scheme (Laing and Stinson, <https://eprint.iacr.org/2017/1155>), with a commitment to every
//! value, so that the sender of a wrong value is named. Steps are numbered as in `protocols.md`, section "Repair".
//!
//! A helper's contribution is a function of its share and the [`Case`], so that its content id can be asked for before a repair is
//! approved, and compared when it is made.
//!
//! The target gets the same share again. If someone else may have the lost one, redistribute right afterwards.

mod case;

use std::collections::{BTreeMap, BTreeSet};

use frost_core::{Element, Field, Group, Scalar};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

pub use case::{Admitted, Case};

use crate::ceremony::{Bodies, Broadcasts, Ceremony, Observe, Round, Route, payloads, verified_scalar};
use crate::echo::{self, TRANSCRIPT_BYTES};
use crate::hash::TaggedHash;
use crate::polynomial::{lagrange, sum};
use crate::proof::{self, PROOF_BYTES};
use crate::session::{Stage, Step};
use crate::suite::{SCALAR_BYTES, ScalarField, Suite, point, points, with_suite};
use crate::{KeyShare, Message, Output, PublicKeys, Session, ThresholdError};
use case::Deltas;

const TRANSCRIPT_TAG: &str = "svc/repair-transcript/v1";

/// The parameters, on which all participants of a ceremony agreed beforehand. Participants whose parameters differ, except in
/// `me`, reject each other's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The case.
    pub case: Case,
    /// The contributions that were admitted.
    pub admitted: Admitted,
    /// This participant: a helper or the target.
    pub me: u16,
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
/// [`NotAdmitted`](ThresholdError::NotAdmitted) if our contribution is not the admitted one, or the admitted root is not that of the
/// admitted contributions;
/// [`ShareMissing`](ThresholdError::ShareMissing), [`ShareMismatch`](ThresholdError::ShareMismatch) or
/// [`ProfileMismatch`](ThresholdError::ProfileMismatch) if a helper's share is not its share of `keys`.
pub fn start(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.case.keys.profile(), C => start_helping::<C>(params, share, rng))
}

fn start_helping<C: Suite>(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let ceremony = open::<C>(&params)?;
    let Params { case, admitted, me, .. } = params;
    let (mut send, mut own) = (Vec::new(), None);
    if case.helpers.contains(&me) {
        let secret = KeyShare::check_required(share, me, &case.keys)?.scalar::<C>()?;
        let deltas = case.split::<C>(me, &secret)?;
        let commitments = case::commit::<C>(&deltas)?;
        admitted.check_own(&case, me, Some(case.content_id(me, &commitments)))?;
        // Step 1.6
        let payload = proof::with_proof::<C>(&ceremony, &commitments, &secret, rng)?;
        own = Some(send_pieces::<C>(&ceremony, deltas, payload, &mut send)?);
    } else {
        admitted.check_own(&case, me, None)?;
    }
    Ok((Session::new(ceremony, AwaitCommitments { case, admitted, own }), send))
}

/// Checks the parameters and derives the rounds from them.
fn open<C: Suite>(params: &Params) -> Result<Ceremony, ThresholdError> {
    let &Params { ref case, ref admitted, me, ref ceremony_id } = params;
    let &Case { target, ref helpers, .. } = case;
    // Step 1.1
    case.check()?;
    if me != target && !helpers.contains(&me) {
        return Err(ThresholdError::NotInRoster { participant: me });
    }
    // Step 1.2
    let hash = TaggedHash::new("svc/repair/v3").bytes(ceremony_id).bytes(&case.hash());
    let ids = &admitted.contributions;
    let hash = ids
        .iter()
        .fold(hash.bytes(admitted.root.as_ref().map_or(&[], |root| root)), |hash, id| hash.bytes(id));
    let binding = hash.finish();
    let everyone = helpers.iter().copied().chain([target]).collect();
    let from_helpers = Round::private(helpers, SCALAR_BYTES);
    let (deltas, sigmas) = if me == target {
        (Round::no_messages(), from_helpers)
    } else {
        (from_helpers, Round::no_messages())
    };
    let rounds = vec![
        Round::broadcast(helpers, helpers.len() * C::POINT_BYTES + PROOF_BYTES),
        deltas,
        Round::broadcast(&everyone, TRANSCRIPT_BYTES),
        sigmas,
    ];
    Ok(Ceremony::new(me, binding, rounds))
}

/// What a helper keeps of its own pieces.
struct Own<C: Suite> {
    /// The payload of our own broadcast.
    payload: Vec<u8>,
    /// The piece for ourselves.
    delta: Zeroizing<Scalar<C>>,
}

/// Steps 1.7 and 1.8: the messages with commitments and pieces.
fn send_pieces<C: Suite>(
    ceremony: &Ceremony,
    deltas: Deltas<C>,
    payload: Vec<u8>,
    send: &mut Vec<Message>,
) -> Result<Own<C>, ThresholdError> {
    send.push(ceremony.message(1, None, &payload));
    let mut own = None;
    for (helper, delta) in deltas {
        if helper == ceremony.me {
            own = Some(delta);
        } else {
            send.push(ceremony.scalar_message::<C>(2, helper, &delta));
        }
    }
    let delta = own.ok_or(ThresholdError::NotInRoster { participant: ceremony.me })?;
    Ok(Own { payload, delta })
}

/// Waits for the helpers' commitments, after sending ours.
struct AwaitCommitments<C: Suite> {
    case: Case,
    admitted: Admitted,
    /// `None` if we are the target.
    own: Option<Own<C>>,
}

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Checks that each helper's commitments are to pieces of its current share, that it knows the share, and that the commitments
    /// are the admitted ones.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let Self { case, admitted, own } = *self;
        let mut broadcasts = payloads(bodies);
        let weights = lagrange::<C>(&case.helpers, Some(case.target))?;
        let mut commitments = BTreeMap::new();
        for (&from, payload) in &broadcasts {
            commitments.insert(from, check::<C>(&case, &weights, ceremony, from, payload)?);
        }
        let mut own_delta = None;
        if let Some(Own { payload, delta }) = own {
            commitments.insert(ceremony.me, decode::<C>(&case, &weights, ceremony.me, &payload)?);
            broadcasts.insert(ceremony.me, payload);
            own_delta = Some(delta);
        }
        // Step 2.4
        admitted.check_all(&case, &broadcasts)?;
        Ok(Step::Next(Vec::new(), Box::new(AwaitDeltas::<C> { case, broadcasts, commitments, own_delta })))
    }
}

/// Commitments to the pieces of one helper, by the helper that each piece is for.
type Commitments<C> = BTreeMap<u16, Element<C>>;

/// Decodes a helper's commitments, and checks that they are to its share.
fn decode<C: Suite>(
    case: &Case,
    weights: &BTreeMap<u16, Scalar<C>>,
    from: u16,
    payload: &[u8],
) -> Result<Commitments<C>, ThresholdError> {
    // Step 2.1
    let decoded = points::<C>(proof::commitments(payload));
    let decoded = decoded.ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
    // Step 2.2
    let part = share::<C>(case, from)? * *weights.get(&from).ok_or(ThresholdError::UnknownSender { from })?;
    if part != sum::<C>(decoded.iter().copied()) {
        return Err(ThresholdError::CommitmentMismatch { from });
    }
    Ok(case.helpers.iter().copied().zip(decoded).collect())
}

/// Decodes a helper's commitments, and checks also that it knows the share.
fn check<C: Suite>(
    case: &Case,
    weights: &BTreeMap<u16, Scalar<C>>,
    ceremony: &Ceremony,
    from: u16,
    payload: &[u8],
) -> Result<Commitments<C>, ThresholdError> {
    let decoded = decode::<C>(case, weights, from, payload)?;
    // Step 2.3
    proof::verify::<C>(ceremony, from, payload, &share::<C>(case, from)?)?;
    Ok(decoded)
}

/// The helper's verifying share.
fn share<C: Suite>(case: &Case, helper: u16) -> Result<Element<C>, ThresholdError> {
    let share = case.keys.verifying_shares().get(&helper).and_then(|share| point::<C>(share));
    share.ok_or(ThresholdError::UnknownSender { from: helper })
}

impl<C: Suite> Observe<C> for Params {
    fn open_for(&self, me: u16) -> Result<Ceremony, ThresholdError> {
        open::<C>(&Self { me, ..self.clone() })
    }

    fn participants(&self) -> BTreeSet<u16> {
        self.case.helpers.iter().copied().chain([self.case.target]).collect()
    }

    fn broadcasters(&self) -> &BTreeSet<u16> {
        &self.case.helpers
    }

    /// Steps 2.1 to 2.4
    fn check_broadcast(&self, ceremony: &Ceremony, from: u16, payload: &[u8]) -> Result<(), ThresholdError> {
        let Self { case, admitted, .. } = self;
        check::<C>(case, &lagrange::<C>(&case.helpers, Some(case.target))?, ceremony, from, payload)?;
        admitted.check_one(case, from, payload)
    }

    /// Steps 2.6 and 4.1
    fn committed(
        &self,
        (from, to, round): Route,
        broadcasts: &Broadcasts,
    ) -> Result<Element<C>, ThresholdError> {
        let Case { helpers, target, .. } = &self.case;
        let weights = lagrange::<C>(helpers, Some(*target))?;
        let unknown = ThresholdError::UnknownRound { from, round };
        let piece = |helper: &u16, bytes: &[u8], of: u16| {
            Ok(decode::<C>(&self.case, &weights, *helper, bytes)?.get(&of).copied())
        };
        if to == Some(*target) {
            let pieces = broadcasts.iter().map(|(helper, bytes)| piece(helper, bytes, from));
            let pieces = pieces.collect::<Result<Option<Vec<_>>, ThresholdError>>()?;
            return pieces.map(|pieces| sum::<C>(pieces.into_iter())).ok_or(unknown);
        }
        let of_sender = broadcasts.get(&from).zip(to);
        of_sender.map_or(Ok(None), |(bytes, to)| piece(&from, bytes, to))?.ok_or(unknown)
    }

    fn transcript(&self, ceremony: &Ceremony, broadcasts: &Broadcasts) -> Result<[u8; 32], ThresholdError> {
        Ok(echo::transcript(TRANSCRIPT_TAG, ceremony, broadcasts, self.case.keys.group()))
    }
}

/// Waits for the other helpers' pieces for us. The target gets none.
struct AwaitDeltas<C: Suite> {
    case: Case,
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
        let Self { case: Case { keys, .. }, broadcasts, commitments, .. } = *self;
        // Step 3.1
        let transcript = echo::transcript(TRANSCRIPT_TAG, ceremony, &broadcasts, keys.group());
        let then = if sigma.is_some() {
            Step::Done(Box::new(Output { share: None, keys, transcript }))
        } else {
            Step::Next(Vec::new(), Box::new(AwaitSigmas::<C> { keys, commitments, transcript }))
        };
        let (echo, stage) = echo::exchange(ceremony, transcript, then);
        Ok(Step::Next(sigma.into_iter().chain([echo]).collect(), stage))
    }
}

impl<C: Suite> AwaitDeltas<C> {
    /// Steps 2.5 to 2.7
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
        Ok(ceremony.scalar_message::<C>(4, self.case.target, &sigma))
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
