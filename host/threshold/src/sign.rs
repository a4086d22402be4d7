//! Signing: RFC 9591 section 5, two rounds between `threshold` signers and a coordinator.
//!
//! Round one is [`commit`], round two [`Nonces::sign`]; the coordinator then calls [`aggregate`]. Steps are numbered as
//! in `protocols.md`, section "Signing".

mod aggregate;
mod nonces;
mod package;

pub use aggregate::{aggregate, aggregate_of_former_epoch};
pub use nonces::{Nonces, commit};
pub use package::SigningPackage;

use crate::suite::{Suite, with_suite};
use crate::{SignatureProfile, ThresholdError};

/// A signature, 64 bytes: RFC 8032 (`R ‖ S`) for Ed25519, BIP-340 (`r ‖ s`) for secp256k1.
pub type Signature = [u8; 64];

/// Verifies `signature` (64 bytes) on `message` under `public_key` (32 bytes, as
/// [`PublicKeys::public_key`](crate::PublicKeys::public_key)), with ed25519-dalek or k256, not with the FROST libraries.
///
/// Strict: points with a second encoding or of small order are rejected.
///
/// # Errors
///
/// [`ThresholdError::MalformedMaterial`] if the public key is invalid; otherwise [`ThresholdError::InvalidSignature`].
pub fn verify(
    profile: SignatureProfile,
    public_key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), ThresholdError> {
    with_suite!(profile, C => verify_strictly::<C>(public_key, message, signature))
}

/// Steps 4.1 to 4.3
fn verify_strictly<C: Suite>(
    public_key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), ThresholdError> {
    let key = public_key.try_into().ok().and_then(C::public_key_decode);
    let key = key.ok_or(ThresholdError::MalformedMaterial { what: "public key" })?;
    let signature: Option<&Signature> = signature.try_into().ok();
    let verifies = signature.is_some_and(|signature| C::verifies(&key, message, signature));
    if verifies { Ok(()) } else { Err(ThresholdError::InvalidSignature) }
}
