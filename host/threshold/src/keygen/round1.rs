//! Round 1: commit to a random polynomial and prove to know its secret.

use frost_core::Signature;
use frost_core::keys::VerifiableSecretSharingCommitment;
use frost_core::keys::dkg::{self, round1};
use rand_core::CryptoRngCore;

use super::ceremony::Ceremony;
use crate::encoding::Reader;
use crate::suite::{SIGNATURE_BYTES, Suite, canonical, identifier, unexpected};
use crate::{Message, ThresholdError};

/// Our commitments are out; those of the others are awaited.
pub(super) struct AwaitCommitments<C: Suite> {
    /// The coefficients of our polynomial.
    pub(super) secret: round1::SecretPackage<C>,
    /// The payload of our own broadcast, for the transcript.
    pub(super) own: Vec<u8>,
}

/// Makes our polynomial and the broadcast that commits to it.
pub(super) fn commit<C: Suite>(
    ceremony: &Ceremony,
    rng: &mut impl CryptoRngCore,
) -> Result<(AwaitCommitments<C>, Message), ThresholdError> {
    let participants = u16::try_from(ceremony.peers.len() + 1).unwrap_or(u16::MAX);
    let me = identifier(ceremony.me)?;
    // Step 1.3
    let (secret, package) =
        dkg::part1::<C, _>(me, participants, ceremony.threshold, rng).map_err(unexpected::<C>)?;
    // Step 1.4
    let own = encode(&package)?;
    let message = ceremony.message(1, None, &own);
    Ok((AwaitCommitments { secret, own }, message))
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
