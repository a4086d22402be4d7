//! Verifying as anybody outside would: with the libraries they use, not with the one that signed.

use super::Signature;
use crate::suite::{Suite, with_suite};
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
    let key = public_key.try_into().ok().and_then(C::public_key_decode);
    let key = key.ok_or(ThresholdError::MalformedMaterial { what: "public key" })?;
    let signature: Option<&Signature> = signature.try_into().ok();
    let verifies = signature.is_some_and(|signature| C::verifies(&key, message, signature));
    if verifies { Ok(()) } else { Err(ThresholdError::InvalidSignature) }
}
