//! FROST(Ed25519, SHA-512), RFC 9591 section 6.1.

use frost_core::Scalar;
use frost_ed25519::Ed25519Sha512;

use super::Suite;
use crate::{SignatureProfile, ThresholdError, Tweak};

impl Suite for Ed25519Sha512 {
    const PROFILE: SignatureProfile = SignatureProfile::FrostEd25519Sha512;
    const POINT_BYTES: usize = 32;

    fn public_key(verifying_key: &[u8]) -> Option<[u8; 32]> {
        verifying_key.try_into().ok()
    }

    fn verifying_key(public_key: &[u8; 32]) -> Vec<u8> {
        public_key.to_vec()
    }

    /// SLIP-10 knows hardened derivation only, and every additive scheme for Ed25519 is somebody's own.
    fn tweak(_: &Tweak) -> Result<Scalar<Self>, ThresholdError> {
        Err(ThresholdError::DerivationUnsupported { profile: Self::PROFILE })
    }
}
