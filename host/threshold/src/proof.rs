//! Proofs of knowledge: a participant that deals or splits a secret proves that it knows it.
//!
//! Commitments and secret values that match do not show this: for fewer recipients than the threshold, a sender can choose the values,
//! and compute commitments that fit them and any verifying share. A proof is Schnorr's, by the secret, over the ceremony, its sender and
//! all that the sender commits to, so that it is valid nowhere else. Steps are numbered as in `protocols.md`, section "Ceremonies".

use frost_core::{Element, Scalar};
use rand_core::CryptoRngCore;
use zeroize::Zeroizing;

use crate::ThresholdError;
use crate::ceremony::Ceremony;
use crate::hash::TaggedHash;
use crate::suite::{
    SCALAR_BYTES, Suite, hash_to_scalar, point_bytes, points_bytes, scalar, scalar_bytes, secret_bytes,
};

/// Bytes of a proof, in both suites: challenge and response.
pub(crate) const PROOF_BYTES: usize = 2 * SCALAR_BYTES;

/// The payload of a broadcast: the commitments, and the proof that we know the secret.
pub(crate) fn with_proof<C: Suite>(
    ceremony: &Ceremony,
    commitments: &[u8],
    secret: &Scalar<C>,
    rng: &mut impl CryptoRngCore,
) -> Result<Vec<u8>, ThresholdError> {
    // Step 0.10: with a generator that repeats itself, as in a copied machine, another statement still has another nonce.
    let mut random = Zeroizing::new([0; 32]);
    rng.fill_bytes(random.as_mut_slice());
    let hash = TaggedHash::new("svc/proof-nonce/v1").bytes(random.as_slice());
    let hash = hash.bytes(secret_bytes::<C>(secret).as_slice());
    let seed = Zeroizing::new(statement(hash, ceremony, ceremony.me, commitments).finish());
    let nonce = Zeroizing::new(hash_to_scalar::<C>(seed.as_slice())?);
    // Step 0.11
    let nonce_point = points_bytes::<C>(&[C::generator_times(&nonce)])?;
    let challenge = challenge::<C>(ceremony, ceremony.me, commitments, &nonce_point)?;
    let response = *nonce + challenge * *secret;
    let (challenge, response) = (scalar_bytes::<C>(&challenge), scalar_bytes::<C>(&response));
    Ok([commitments, challenge.as_ref(), response.as_ref()].concat())
}

/// The commitments in a payload, which its proof follows.
pub(crate) fn commitments(payload: &[u8]) -> &[u8] {
    payload.split_last_chunk::<PROOF_BYTES>().map_or(&[], |(commitments, _)| commitments)
}

/// Step 0.12: checks that the sender of this payload knows the secret whose product with the generator is `key`.
pub(crate) fn verify<C: Suite>(
    ceremony: &Ceremony,
    from: u16,
    payload: &[u8],
    key: &Element<C>,
) -> Result<(), ThresholdError> {
    let malformed = || ThresholdError::MalformedMessage { from, round: 1 };
    let (commitments, proof) = payload.split_last_chunk::<PROOF_BYTES>().ok_or_else(malformed)?;
    let (stated, response) = proof.split_at(SCALAR_BYTES);
    let stated = scalar::<C>(stated).ok_or_else(malformed)?;
    let response = scalar::<C>(response).ok_or_else(malformed)?;
    let invalid = ThresholdError::InvalidProofOfKnowledge { from };
    let nonce_point = point_bytes::<C>(&(C::generator_times(&response) - *key * stated));
    let nonce_point = nonce_point.ok_or_else(|| invalid.clone())?;
    let expected = challenge::<C>(ceremony, from, commitments, &nonce_point)?;
    if stated == expected { Ok(()) } else { Err(invalid) }
}

fn challenge<C: Suite>(
    ceremony: &Ceremony,
    from: u16,
    commitments: &[u8],
    nonce_point: &[u8],
) -> Result<Scalar<C>, ThresholdError> {
    let hash = statement(TaggedHash::new("svc/proof/v1"), ceremony, from, commitments);
    hash_to_scalar::<C>(&hash.bytes(nonce_point).finish())
}

/// Adds what a proof is bound to. Binding or commitments have the key of the proof.
fn statement(hash: TaggedHash, ceremony: &Ceremony, from: u16, commitments: &[u8]) -> TaggedHash {
    hash.bytes(&ceremony.binding).number(from).bytes(commitments)
}
