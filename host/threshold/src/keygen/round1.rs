//! Round 1: commit to a random polynomial and prove to know its secret.

use frost_core::Signature;
use frost_core::keys::VerifiableSecretSharingCommitment;
use frost_core::keys::dkg::{self, round1};
use rand_core::CryptoRngCore;

use super::Params;
use crate::ceremony::{Ceremony, Round};
use crate::echo::TRANSCRIPT_BYTES;
use crate::encoding::Reader;
use crate::hash::TaggedHash;
use crate::suite::{SCALAR_BYTES, SIGNATURE_BYTES, Suite, canonical, identifier, unexpected};
use crate::{Message, Session, ThresholdError};

/// Our commitments are out; those of the others are awaited.
pub(super) struct AwaitCommitments<C: Suite> {
    pub(super) threshold: u16,
    /// The coefficients of our polynomial.
    pub(super) secret: round1::SecretPackage<C>,
    /// The payload of our own broadcast, for the transcript.
    pub(super) own: Vec<u8>,
}

/// Makes our polynomial and the broadcast that commits to it.
pub(super) fn commit<C: Suite>(
    params: Params,
    rng: &mut impl CryptoRngCore,
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let ceremony = open::<C>(&params)?;
    let Params { me, roster, threshold, .. } = params;
    let participants = u16::try_from(roster.len()).unwrap_or(u16::MAX);
    // Step 1.3
    let (secret, package) =
        dkg::part1::<C, _>(identifier(me)?, participants, threshold, rng).map_err(unexpected::<C>)?;
    // Step 1.4
    let own = encode(&package)?;
    let message = ceremony.message(1, None, &own);
    Ok((Session::open(ceremony, AwaitCommitments { threshold, secret, own }), vec![message]))
}

fn open<C: Suite>(params: &Params) -> Result<Ceremony, ThresholdError> {
    let Params { profile, me, ref roster, threshold, ceremony_id } = *params;
    // Step 1.1
    ThresholdError::check_threshold(threshold, roster.len())?;
    if !roster.contains(&me) {
        return Err(ThresholdError::NotInRoster { participant: me });
    }
    // Step 1.2
    let hash = TaggedHash::new("svc/keygen/v1")
        .bytes(&ceremony_id)
        .bytes(profile.name().as_bytes())
        .number(threshold);
    let binding = hash.numbers(roster).finish();
    let commitments_bytes = usize::from(threshold) * C::POINT_BYTES;
    let rounds = vec![
        Round::broadcast(roster, commitments_bytes + SIGNATURE_BYTES),
        Round::private(roster, SCALAR_BYTES),
        Round::broadcast(roster, TRANSCRIPT_BYTES),
    ];
    Ok(Ceremony::new(me, binding, rounds))
}

/// `φ₀ ‖ … ‖ φ_{t−1} ‖ R ‖ μ`: the commitments, then the proof of knowledge.
fn encode<C: Suite>(package: &round1::Package<C>) -> Result<Vec<u8>, ThresholdError> {
    let commitments = package.commitment().serialize_whole().map_err(unexpected::<C>)?;
    let proof = package.proof_of_knowledge().serialize().map_err(unexpected::<C>)?;
    Ok([commitments, proof].concat())
}

/// Reads what [`encode`] writes, for a polynomial of exactly `threshold` coefficients.
pub(super) fn decode<C: Suite>(payload: &[u8], threshold: u16) -> Option<round1::Package<C>> {
    type Commitments<C> = VerifiableSecretSharingCommitment<C>;
    let mut reader = Reader::new(payload);
    let commitments = reader.bytes(usize::from(threshold) * C::POINT_BYTES)?;
    let proof = reader.bytes(SIGNATURE_BYTES)?;
    reader.end()?;
    Some(round1::Package::new(
        canonical(commitments, Commitments::<C>::deserialize_whole, Commitments::serialize_whole)?,
        canonical(proof, Signature::<C>::deserialize, Signature::serialize)?,
    ))
}
