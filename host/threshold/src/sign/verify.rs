//! Verifying as anybody outside would.

use frost_core::{Signature, VerifyingKey};

use crate::suite::{Suite, canonical, with_suite};
use crate::{SignatureProfile, ThresholdError};

/// Whether `signature` (64 bytes) is one of `public_key` (32 bytes, as
/// [`PublicKeys::public_key`](crate::PublicKeys::public_key)) on `message`.
///
/// Strict: points with a second encoding or of small order are refused.
///
/// # Errors
///
/// [`ThresholdError::MalformedMaterial`] if the public key is none; otherwise [`ThresholdError::InvalidSignature`].
pub fn verify(
    profile: SignatureProfile,
    public_key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), ThresholdError> {
    with_suite!(profile, C => check::<C>(public_key, message, signature))
}

fn check<C: Suite>(public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), ThresholdError> {
    let malformed = ThresholdError::MalformedMaterial { what: "public key" };
    // Step 4.1
    let bytes: [u8; 32] = public_key.try_into().map_err(|_| malformed.clone())?;
    let key = C::verifying_key(&bytes);
    let key = canonical(&key, VerifyingKey::<C>::deserialize, VerifyingKey::serialize).ok_or(malformed)?;
    // Step 4.2
    let signature = canonical(signature, Signature::<C>::deserialize, Signature::serialize);
    let signature = signature.ok_or(ThresholdError::InvalidSignature)?;
    // Step 4.3
    key.verify(message, &signature).map_err(|_| ThresholdError::InvalidSignature)
}
