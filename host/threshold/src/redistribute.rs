//! Redistribution: holders of a key deal new shares of it, to the same roster (a refresh) or to another (a reshare).
//!
//! Verifiable secret redistribution (Desmedt and Jajodia 1997; checks after Wong, Wang and Wing 2002). The key stays
//! the same; all shares change, and old shares do not combine with new ones. Steps are numbered as in `protocols.md`,
//! section "Redistribution".
//!
//! Redistribution does not revoke shares: a quorum of old shares that were not erased still signs.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::{Element, Field, Group, Scalar};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use crate::ceremony::{Bodies, Broadcasts, Ceremony, Observe, Round, Route, payloads, verified_scalar};
use crate::echo::{self, TRANSCRIPT_BYTES};
use crate::hash::TaggedHash;
use crate::polynomial::{Polynomial, evaluate, lagrange};
use crate::proof::{self, PROOF_BYTES};
use crate::public_keys::check_threshold;
use crate::session::{Stage, Step};
use crate::suite::{
    SCALAR_BYTES, ScalarField, Suite, identifier, point_bytes, points, points_bytes, with_suite,
};
use crate::{KeyShare, Message, Output, PublicKeys, Session, ThresholdError};

const TRANSCRIPT_TAG: &str = "svc/redistribute-transcript/v1";

/// The parameters, on which all participants of a ceremony agreed beforehand. Participants whose parameters differ, except in
/// `me`, reject each other's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The public keys of the current epoch. A participant that joins must check that these belong to the key, for example against
    /// a signed hash: the untrusted relay of messages could supply others.
    pub keys: PublicKeys,
    /// This participant: a dealer, a member of the new roster, or both.
    pub me: u16,
    /// Current holders that deal: at least as many as the current threshold.
    pub dealers: BTreeSet<u16>,
    /// All participants of the new epoch, 0-based; at most [`PARTICIPANTS_MAX`](crate::PARTICIPANTS_MAX), gaps
    /// allowed.
    pub roster: BTreeSet<u16>,
    /// Signers that the new epoch requires: from 2 to the size of its roster.
    pub threshold: u16,
    /// Must be unique to this attempt.
    pub ceremony_id: [u8; 32],
}

/// Starts the ceremony. Returns the first messages; only dealers have any.
///
/// A dealer passes its `share` of the current epoch; the `share` of any other participant is ignored. The output of a dealer
/// outside the new roster has no share.
///
/// # Errors
///
/// [`ThresholdError::Threshold`], [`TooManyParticipants`](ThresholdError::TooManyParticipants) or
/// [`NotInRoster`](ThresholdError::NotInRoster) if the parameters are invalid;
/// [`ShareMissing`](ThresholdError::ShareMissing), [`ShareMismatch`](ThresholdError::ShareMismatch) or
/// [`ProfileMismatch`](ThresholdError::ProfileMismatch) if a dealer's share is not its share of `keys`.
pub fn start(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.keys.profile(), C => start_with::<C>(params, share, rng))
}

fn start_with<C: Suite>(
    params: Params,
    share: Option<&KeyShare>,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let ceremony = new_ceremony::<C>(&params)?;
    let (mut send, mut own) = (Vec::new(), None);
    if params.dealers.contains(&ceremony.me) {
        // Step 1.3
        let secret = KeyShare::check_required(share, ceremony.me, &params.keys)?.scalar::<C>()?;
        let polynomial = Polynomial::<C>::random(&secret, params.threshold, rng);
        // Steps 1.4 and 1.5
        let commitments = polynomial.commitments();
        let payload = proof::with_proof::<C>(&ceremony, &points_bytes::<C>(&commitments)?, &secret, rng)?;
        send.push(ceremony.message(1, None, &payload));
        let sub_share = deal(&params, &ceremony, &polynomial, &mut send)?;
        own = Some(Own::<C> { payload, commitments, sub_share });
    }
    Ok((Session::new(ceremony, AwaitCommitments { params, own }), send))
}

/// Checks the parameters and derives the rounds from them.
fn new_ceremony<C: Suite>(params: &Params) -> Result<Ceremony, ThresholdError> {
    let Params { keys, me, dealers, roster, threshold, ceremony_id } = params;
    // Step 1.1
    check_threshold(*threshold, roster.len())?;
    roster.iter().try_for_each(|participant| identifier::<C>(*participant).map(drop))?;
    keys.check_quorum(dealers)?;
    if !dealers.contains(me) && !roster.contains(me) {
        return Err(ThresholdError::NotInRoster { participant: *me });
    }
    // Step 1.2
    let hash = TaggedHash::new("svc/redistribute/v2").bytes(ceremony_id).bytes(&keys.to_bytes());
    let binding = hash.number(*threshold).set(dealers).set(roster).finish();
    let everyone = dealers.union(roster).copied().collect();
    let broadcast_bytes = usize::from(*threshold) * C::POINT_BYTES + PROOF_BYTES;
    let sub_shares =
        if roster.contains(me) { Round::private(dealers, SCALAR_BYTES) } else { Round::no_messages() };
    let rounds = vec![
        Round::broadcast(dealers, broadcast_bytes),
        sub_shares,
        Round::broadcast(&everyone, TRANSCRIPT_BYTES),
    ];
    Ok(Ceremony::new(*me, binding, rounds))
}

/// What a dealer keeps of its own dealing.
struct Own<C: Suite> {
    /// The payload of our own broadcast.
    payload: Vec<u8>,
    /// The commitments in it.
    commitments: Vec<Element<C>>,
    /// Our own sub-share for ourselves, if we are in the new roster.
    sub_share: Option<Zeroizing<Scalar<C>>>,
}

/// Step 1.6: sends each participant its sub-share, the polynomial's value there. Returns our own, if we are in the new roster.
fn deal<C: Suite>(
    params: &Params,
    ceremony: &Ceremony,
    polynomial: &Polynomial<C>,
    send: &mut Vec<Message>,
) -> Result<Option<Zeroizing<Scalar<C>>>, ThresholdError> {
    let mut own = None;
    for &participant in &params.roster {
        let sub_share = polynomial.at(participant)?;
        if participant == ceremony.me {
            own = Some(sub_share);
        } else {
            send.push(ceremony.scalar_message::<C>(2, participant, &sub_share));
        }
    }
    Ok(own)
}

/// Decodes a dealer's commitments, and checks that they are to its share.
fn decode<C: Suite>(params: &Params, from: u16, payload: &[u8]) -> Result<Vec<Element<C>>, ThresholdError> {
    let bytes = proof::commitments(payload);
    // Step 2.1
    let decoded = points::<C>(bytes).ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
    // Step 2.2: the constant term of a dealer's polynomial is its current share.
    if !params.keys.verifying_shares().get(&from).is_some_and(|share| bytes.starts_with(share)) {
        return Err(ThresholdError::CommitmentMismatch { from });
    }
    Ok(decoded)
}

/// Decodes a dealer's commitments, and checks also that it knows the share.
fn check<C: Suite>(
    params: &Params,
    ceremony: &Ceremony,
    from: u16,
    payload: &[u8],
) -> Result<Vec<Element<C>>, ThresholdError> {
    let decoded = decode::<C>(params, from, payload)?;
    // Step 2.3
    let constant = decoded.first().ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
    proof::verify::<C>(ceremony, from, payload, constant)?;
    Ok(decoded)
}

impl<C: Suite> Observe<C> for Params {
    fn open_for(&self, me: u16) -> Result<Ceremony, ThresholdError> {
        new_ceremony::<C>(&Self { me, ..self.clone() })
    }

    fn participants(&self) -> BTreeSet<u16> {
        self.dealers.union(&self.roster).copied().collect()
    }

    fn broadcasters(&self) -> &BTreeSet<u16> {
        &self.dealers
    }

    /// Steps 2.1 to 2.3
    fn check_broadcast(&self, ceremony: &Ceremony, from: u16, payload: &[u8]) -> Result<(), ThresholdError> {
        check::<C>(self, ceremony, from, payload).map(drop)
    }

    /// Step 2.5
    fn committed(&self, (from, to, _): Route, broadcasts: &Broadcasts) -> Result<Element<C>, ThresholdError> {
        let terms = broadcasts.get(&from).map(Vec::as_slice).unwrap_or_default();
        let terms = decode::<C>(self, from, terms)?;
        Ok(evaluate::<C>(&terms, to.ok_or(ThresholdError::WrongRecipient { from, round: 2 })?))
    }

    fn transcript(&self, ceremony: &Ceremony, broadcasts: &Broadcasts) -> Result<[u8; 32], ThresholdError> {
        let decode = |(from, bytes): (&u16, &Vec<u8>)| Ok((*from, decode::<C>(self, *from, bytes)?));
        let commitments = broadcasts.iter().map(decode).collect::<Result<_, ThresholdError>>()?;
        let keys = next_keys::<C>(self, &lagrange::<C>(&self.dealers, None)?, &commitments)?;
        Ok(echo::transcript(TRANSCRIPT_TAG, ceremony, broadcasts, keys.group()))
    }
}

/// Waits for the dealers' commitments. A dealer has sent its commitments and sub-shares already.
struct AwaitCommitments<C: Suite> {
    params: Params,
    /// `None` if we do not deal.
    own: Option<Own<C>>,
}

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Checks that each dealer's first commitment is its current verifying share, and that it knows the share.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let Self { params, own } = *self;
        let mut broadcasts = payloads(bodies);
        let mut commitments = BTreeMap::new();
        for (&from, payload) in &broadcasts {
            commitments.insert(from, check::<C>(&params, ceremony, from, payload)?);
        }
        let mut own_sub_share = None;
        if let Some(own) = own {
            broadcasts.insert(ceremony.me, own.payload);
            commitments.insert(ceremony.me, own.commitments);
            own_sub_share = own.sub_share;
        }
        Ok(Step::Next(
            Vec::new(),
            Box::new(AwaitSubShares::<C> { params, broadcasts, commitments, own_sub_share }),
        ))
    }
}

/// Waits for the dealers' sub-shares for us. A dealer outside the new roster receives none.
struct AwaitSubShares<C: Suite> {
    params: Params,
    /// The round-1 payloads of all dealers.
    broadcasts: BTreeMap<u16, Vec<u8>>,
    /// The same, decoded.
    commitments: BTreeMap<u16, Vec<Element<C>>>,
    /// Our own sub-share for ourselves, if we deal and are in the new roster.
    own_sub_share: Option<Zeroizing<Scalar<C>>>,
}

impl<C: Suite> Stage for AwaitSubShares<C> {
    /// Checks the sub-shares, combines them into our new share if we are in the new roster, and sends the transcript's hash.
    fn step(mut self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut sub_shares = self.check(ceremony.me, bodies)?;
        if let Some(own) = self.own_sub_share.take() {
            sub_shares.insert(ceremony.me, own);
        }
        let weights = lagrange::<C>(&self.params.dealers, None)?;
        let keys = next_keys::<C>(&self.params, &weights, &self.commitments)?;
        let share = if self.params.roster.contains(&ceremony.me) {
            Some(combine::<C>(&weights, &sub_shares, ceremony.me, &keys)?)
        } else {
            None
        };
        // Step 3.1
        let transcript = echo::transcript(TRANSCRIPT_TAG, ceremony, &self.broadcasts, keys.group());
        let output = Output { share, keys, transcript };
        let (echo, stage) = echo::exchange(ceremony, transcript, Step::Done(Box::new(output)));
        Ok(Step::Next(vec![echo], stage))
    }
}

impl<C: Suite> AwaitSubShares<C> {
    /// Steps 2.4 and 2.5: the sub-shares for us, by dealer.
    fn check(&self, me: u16, bodies: &Bodies) -> Result<BTreeMap<u16, Zeroizing<Scalar<C>>>, ThresholdError> {
        let mut sub_shares = BTreeMap::new();
        for (&from, body) in bodies {
            let terms = self.commitments.get(&from).map(Vec::as_slice).unwrap_or_default();
            sub_shares.insert(from, verified_scalar::<C>(from, 2, body, &evaluate::<C>(terms, me))?);
        }
        Ok(sub_shares)
    }
}

/// Step 2.6: the public keys of the new epoch.
fn next_keys<C: Suite>(
    params: &Params,
    weights: &BTreeMap<u16, Scalar<C>>,
    commitments: &BTreeMap<u16, Vec<Element<C>>>,
) -> Result<PublicKeys, ThresholdError> {
    let Params { keys, roster, threshold, .. } = params;
    let mut terms = vec![C::Group::identity(); usize::from(*threshold)];
    for (dealer, weight) in weights {
        for (sum, term) in terms.iter_mut().zip(commitments.get(dealer).into_iter().flatten()) {
            *sum = *sum + *term * *weight;
        }
    }
    let group_key = terms.first().and_then(point_bytes::<C>);
    if group_key.as_deref() != Some(keys.verifying_key()) {
        return Err(ThresholdError::MalformedMaterial { what: "public keys" });
    }
    let share =
        |participant: &u16| Some((*participant, point_bytes::<C>(&evaluate::<C>(&terms, *participant))?));
    let shares: Option<BTreeMap<u16, Vec<u8>>> = roster.iter().map(share).collect();
    let shares = shares.ok_or(ThresholdError::MalformedMaterial { what: "public keys" })?;
    Ok(keys.next_epoch(*threshold, shares))
}

/// Step 2.7: our share of the new epoch.
fn combine<C: Suite>(
    weights: &BTreeMap<u16, Scalar<C>>,
    sub_shares: &BTreeMap<u16, Zeroizing<Scalar<C>>>,
    me: u16,
    keys: &PublicKeys,
) -> Result<KeyShare, ThresholdError> {
    let mut secret = Zeroizing::new(ScalarField::<C>::zero());
    for (dealer, weight) in weights {
        // Cannot fail: there is a weight for each dealer, and a sub-share from each.
        let sub_share = sub_shares.get(dealer).ok_or(ThresholdError::NotInRoster { participant: *dealer })?;
        *secret = *secret + **sub_share * *weight;
    }
    KeyShare::from_scalar::<C>(me, &secret, keys)
}
