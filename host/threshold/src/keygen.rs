//! Key generation: the participants of a roster create a key together, in three rounds.
//!
//! Pedersen's DKG with proofs of knowledge (FROST paper, <https://eprint.iacr.org/2020/852.pdf>, figure 1). frost-core checks what
//! others send and computes the key. The echo round is in place of the broadcast channel that the paper assumes, and a proof that is bound
//! to the ceremony is in addition to the one of frost-core, which is not. Steps are numbered as in `protocols.md`, section "Key
//! generation".

use std::collections::{BTreeMap, BTreeSet};

use frost_core::keys::dkg::{self, round1, round2};
use frost_core::keys::{
    KeyPackage, PublicKeyPackage, SigningShare, VerifiableSecretSharingCommitment, VerifyingShare,
};
use frost_core::{Element, Error, Field, Identifier, Scalar, Signature};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use crate::ceremony::{Bodies, Broadcasts, Ceremony, Observe, Round, Route, payload};
use crate::echo::{self, TRANSCRIPT_BYTES};
use crate::encoding::Reader;
use crate::hash::TaggedHash;
use crate::polynomial::{Polynomial, evaluate};
use crate::proof::{self, PROOF_BYTES};
use crate::public_keys::{Group, check_threshold};
use crate::session::{Stage, Step};
use crate::suite::{
    SCALAR_BYTES, SIGNATURE_BYTES, ScalarField, Suite, canonical, identifier, points_bytes, scalar_bytes,
    unexpected, with_suite,
};
use crate::{KeyShare, Message, Output, PublicKeys, Session, SignatureProfile, ThresholdError};

const TRANSCRIPT_TAG: &str = "svc/keygen-transcript/v1";

/// The parameters, on which all participants of a ceremony agreed beforehand. Participants whose parameters differ, except in
/// `me`, reject each other's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The signature scheme of the key.
    pub profile: SignatureProfile,
    /// This participant.
    pub me: u16,
    /// All participants, 0-based; at most [`PARTICIPANTS_MAX`](crate::PARTICIPANTS_MAX), gaps allowed.
    pub roster: BTreeSet<u16>,
    /// Signers required for a signature: from 2 to the size of the roster.
    pub threshold: u16,
    /// Must be unique to this attempt.
    pub ceremony_id: [u8; 32],
}

/// Starts the ceremony. Returns the first messages to the other participants.
///
/// # Errors
///
/// [`ThresholdError::Threshold`], [`ThresholdError::TooManyParticipants`] or [`ThresholdError::NotInRoster`] if the
/// parameters are invalid.
pub fn start(
    params: Params,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    with_suite!(params.profile, C => commit::<C>(params, rng))
}

/// Round 1: commits to a random polynomial and proves knowledge of its constant term.
fn commit<C: Suite>(
    params: Params,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let ceremony = open::<C>(&params)?;
    let Params { me, roster, threshold, .. } = params;
    let participants = u16::try_from(roster.len()).unwrap_or(u16::MAX);
    // Step 1.3
    let constant = Zeroizing::new(ScalarField::<C>::random(rng));
    let polynomial = Polynomial::<C>::random(&constant, threshold, rng);
    let commitments = points_bytes::<C>(&polynomial.commitments())?;
    let commitment = VerifiableSecretSharingCommitment::deserialize_whole(&commitments);
    let commitment = commitment.map_err(unexpected::<C>)?;
    let (me, coefficients) = (identifier(me)?, polynomial.coefficients());
    let secret = round1::SecretPackage::new(me, coefficients, commitment, threshold, participants);
    // Steps 1.4 and 1.5
    let proof = frost_proof::<C>(ceremony.me, &constant, rng)?;
    let own = proof::with_proof::<C>(&ceremony, &[commitments, proof].concat(), &constant, rng)?;
    // Step 1.6
    let message = ceremony.message(1, None, &own);
    Ok((Session::new(ceremony, AwaitCommitments { threshold, secret, own }), vec![message]))
}

fn open<C: Suite>(params: &Params) -> Result<Ceremony, ThresholdError> {
    let Params { profile, me, ref roster, threshold, ceremony_id } = *params;
    // Step 1.1
    check_threshold(threshold, roster.len())?;
    if !roster.contains(&me) {
        return Err(ThresholdError::NotInRoster { participant: me });
    }
    // Step 1.2
    let hash = TaggedHash::new("svc/keygen/v2")
        .bytes(&ceremony_id)
        .bytes(profile.name().as_bytes())
        .number(threshold);
    let binding = hash.numbers(roster).finish();
    let commitments_bytes = usize::from(threshold) * C::POINT_BYTES;
    let rounds = vec![
        Round::broadcast(roster, commitments_bytes + SIGNATURE_BYTES + PROOF_BYTES),
        Round::private(roster, SCALAR_BYTES),
        Round::broadcast(roster, TRANSCRIPT_BYTES),
    ];
    Ok(Ceremony::new(me, binding, rounds))
}

/// Step 1.4: the proof that frost-core verifies, `R ‖ r`. On secp256k1 only x of `R` is encoded, and the nonce makes its y even.
fn frost_proof<C: Suite>(
    me: u16,
    constant: &Scalar<C>,
    rng: &mut impl CryptoRngCore,
) -> Result<Vec<u8>, ThresholdError> {
    let (nonce, nonce_point) = C::generate_nonce(rng);
    let nonce = Zeroizing::new(nonce);
    let challenge = frost_challenge::<C>(me, C::generator_times(constant), nonce_point)?;
    let response = *nonce + challenge * *constant;
    let nonce_point = points_bytes::<C>(&[nonce_point])?;
    let x = nonce_point.last_chunk::<32>().map_or(&[][..], |x| x);
    Ok([x, scalar_bytes::<C>(&response).as_ref()].concat())
}

/// The challenge of a proof that frost-core verifies.
fn frost_challenge<C: Suite>(
    prover: u16,
    key: Element<C>,
    nonce_point: Element<C>,
) -> Result<Scalar<C>, ThresholdError> {
    let mut preimage = identifier::<C>(prover)?.serialize();
    preimage.extend(points_bytes::<C>(&[key, nonce_point])?);
    C::HDKG(&preimage).ok_or_else(no_challenge)
}

/// Step 2.1: decodes the commitments, to a polynomial of exactly `threshold` coefficients, and the proof that frost-core verifies.
fn decode<C: Suite>(payload: &[u8], threshold: u16) -> Option<round1::Package<C>> {
    type Commitments<C> = VerifiableSecretSharingCommitment<C>;
    let mut reader = Reader::new(proof::commitments(payload));
    let commitments = reader.bytes(usize::from(threshold) * C::POINT_BYTES)?;
    let proof = reader.bytes(SIGNATURE_BYTES)?;
    reader.end()?;
    Some(round1::Package::new(
        canonical(commitments, Commitments::<C>::deserialize_whole, Commitments::serialize_whole)?,
        canonical(proof, Signature::<C>::deserialize, Signature::serialize)?,
    ))
}

/// Decodes a broadcast, and checks the proof that is bound to the ceremony.
fn check<C: Suite>(
    ceremony: &Ceremony,
    from: u16,
    payload: &[u8],
    threshold: u16,
) -> Result<round1::Package<C>, ThresholdError> {
    let malformed = ThresholdError::MalformedMessage { from, round: 1 };
    let package = decode::<C>(payload, threshold).ok_or_else(|| malformed.clone())?;
    let constant = package.commitment().coefficients().first().ok_or(malformed)?.value();
    // Step 2.2
    proof::verify::<C>(ceremony, from, payload, &constant)?;
    Ok(package)
}

impl<C: Suite> Observe<C> for Params {
    fn open_for(&self, me: u16) -> Result<Ceremony, ThresholdError> {
        open::<C>(&Self { me, ..self.clone() })
    }

    fn participants(&self) -> BTreeSet<u16> {
        self.roster.clone()
    }

    fn broadcasters(&self) -> &BTreeSet<u16> {
        &self.roster
    }

    /// Steps 2.1 to 2.3
    fn check_broadcast(&self, ceremony: &Ceremony, from: u16, payload: &[u8]) -> Result<(), ThresholdError> {
        let package = check::<C>(ceremony, from, payload, self.threshold)?;
        let first = package.commitment().coefficients().first().map(|term| term.value());
        let key = first.ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
        let proof = package.proof_of_knowledge();
        let challenge = frost_challenge::<C>(from, key, *proof.R())?;
        let holds = C::generator_times(proof.z()) == *proof.R() + key * challenge;
        if holds { Ok(()) } else { Err(ThresholdError::InvalidProofOfKnowledge { from }) }
    }

    /// Step 3.2
    fn committed(&self, (from, to, _): Route, broadcasts: &Broadcasts) -> Result<Element<C>, ThresholdError> {
        let package = broadcasts.get(&from).and_then(|payload| decode::<C>(payload, self.threshold));
        let package = package.ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
        let terms: Vec<_> = package.commitment().coefficients().iter().map(|term| term.value()).collect();
        Ok(evaluate::<C>(&terms, to.ok_or(ThresholdError::WrongRecipient { from, round: 2 })?))
    }

    /// Steps 3.3 and 3.4
    fn transcript(&self, ceremony: &Ceremony, broadcasts: &Broadcasts) -> Result<[u8; 32], ThresholdError> {
        let mut commitments = BTreeMap::new();
        for (&from, payload) in broadcasts {
            let package = decode::<C>(payload, self.threshold);
            let package = package.ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
            commitments.insert(identifier::<C>(from)?, package.commitment().clone());
        }
        let group = PublicKeyPackage::from_dkg_commitments(
            &commitments.iter().map(|(from, commitment)| (*from, commitment)).collect(),
        );
        let group = group.map_err(unexpected::<C>)?;
        // What the suite does with a new key does not depend on the share, which is not known here.
        let one = SigningShare::<C>::new(ScalarField::<C>::one());
        let unknown = KeyPackage::new(
            identifier(ceremony.me)?,
            one,
            VerifyingShare::from(one),
            *group.verifying_key(),
            self.threshold,
        );
        let (_, group) = C::post_dkg(unknown, group).map_err(unexpected::<C>)?;
        let group = Group::from_package(&group, self.threshold, self.roster.iter().copied())?;
        Ok(echo::transcript(TRANSCRIPT_TAG, ceremony, broadcasts, &group))
    }
}

/// Does not occur: both suites define key generation.
fn no_challenge() -> ThresholdError {
    ThresholdError::Library { detail: "the suite has no key generation".to_owned() }
}

/// Waits for the other participants' commitments, after sending ours.
struct AwaitCommitments<C: Suite> {
    threshold: u16,
    /// The coefficients of our polynomial.
    secret: round1::SecretPackage<C>,
    /// The payload of our own broadcast, for the transcript.
    own: Vec<u8>,
}

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Round 2: checks the commitments and sends each participant its sub-share.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut commitments = BTreeMap::new();
        let mut broadcasts = BTreeMap::from([(ceremony.me, self.own)]);
        for (&from, body) in bodies {
            let package = check::<C>(ceremony, from, payload(body), self.threshold)?;
            commitments.insert(identifier(from)?, package);
            broadcasts.insert(from, payload(body).to_vec());
        }
        // Step 2.3
        let (secret, mut packages) =
            dkg::part2(self.secret, &commitments).map_err(|error| convert_error::<C>(error, bodies))?;
        // Step 2.4
        let mut send = Vec::with_capacity(packages.len());
        for &peer in bodies.keys() {
            let package = packages.remove(&identifier(peer)?);
            let package = package.ok_or(ThresholdError::NotInRoster { participant: peer })?;
            let sub_share = Zeroizing::new(package.signing_share().serialize());
            send.push(ceremony.message(2, Some(peer), &sub_share));
        }
        Ok(Step::Next(send, Box::new(AwaitSubShares { secret, commitments, broadcasts })))
    }
}

/// Waits for the other participants' sub-shares for us, after sending them theirs.
struct AwaitSubShares<C: Suite> {
    /// Our own sub-share for ourselves.
    secret: round2::SecretPackage<C>,
    /// The round-1 packages of the other participants.
    commitments: BTreeMap<Identifier<C>, round1::Package<C>>,
    /// The round-1 payloads of the whole roster.
    broadcasts: BTreeMap<u16, Vec<u8>>,
}

impl<C: Suite> Stage for AwaitSubShares<C> {
    /// Round 3: checks the sub-shares, adds them up to our share, and sends the transcript's hash.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut sub_shares = BTreeMap::new();
        for (&from, body) in bodies {
            // Step 3.1
            let sub_share = SigningShare::<C>::deserialize(payload(body));
            let sub_share = sub_share.map_err(|_| ThresholdError::MalformedMessage { from, round: 2 })?;
            sub_shares.insert(identifier(from)?, round2::Package::new(sub_share));
        }
        // Steps 3.2 and 3.3
        let (key, group) = dkg::part3(&self.secret, &self.commitments, &sub_shares)
            .map_err(|error| convert_error::<C>(error, bodies))?;
        let share = KeyShare::from_package(ceremony.me, &key)?;
        let group = Group::from_package(&group, *key.min_signers(), self.broadcasts.keys().copied())?;
        // Step 3.4
        let transcript = echo::transcript(TRANSCRIPT_TAG, ceremony, &self.broadcasts, &group);
        let chain_code = TaggedHash::new("svc/chain-code/v1").bytes(&transcript).finish();
        let keys = PublicKeys::new(group, chain_code);
        // Step 3.5
        let output = Output { share: Some(share), keys, transcript };
        let (echo, stage) = echo::exchange(ceremony, transcript, Step::Done(Box::new(output)));
        Ok(Step::Next(vec![echo], stage))
    }
}

/// Converts an error of frost-core. Its culprits are FROST identifiers, which are translated to senders of `bodies`.
fn convert_error<C: Suite>(error: Error<C>, bodies: &Bodies) -> ThresholdError {
    let sender =
        |culprit| bodies.keys().copied().find(|sender| identifier::<C>(*sender).as_ref() == Ok(culprit));
    let named = match &error {
        Error::InvalidProofOfKnowledge { culprit } => {
            sender(culprit).map(|from| ThresholdError::InvalidProofOfKnowledge { from })
        }
        Error::InvalidSecretShare { culprit: Some(culprit) } => {
            sender(culprit).map(|from| ThresholdError::InvalidSecretShare { from })
        }
        _ => None,
    };
    named.unwrap_or_else(|| unexpected(error))
}
