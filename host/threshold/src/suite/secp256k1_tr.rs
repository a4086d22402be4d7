//! FROST(secp256k1, SHA-256) with the changes that make its signatures BIP-340.

use frost_core::Scalar;
use frost_secp256k1_tr::Secp256K1Sha256TR;

use super::{Suite, scalar};
use crate::{SignatureProfile, ThresholdError, Tweak};

/// First byte of a compressed SEC 1 point with an even y, the one BIP-340 means by an x.
const EVEN_Y: u8 = 0x02;

impl Suite for Secp256K1Sha256TR {
    const PROFILE: SignatureProfile = SignatureProfile::FrostSecp256k1Sha256Tr;
    const POINT_BYTES: usize = 33;

    /// Drops the parity: BIP-340 public keys are x alone. Keys are stored with it, because derivation needs it.
    fn public_key(verifying_key: &[u8]) -> Option<[u8; 32]> {
        let (_parity, x) = verifying_key.split_first()?;
        x.try_into().ok()
    }

    fn verifying_key(public_key: &[u8; 32]) -> Vec<u8> {
        [&[EVEN_Y], public_key.as_slice()].concat()
    }

    fn tweak(tweak: &Tweak) -> Result<Scalar<Self>, ThresholdError> {
        scalar::<Self>(tweak.as_bytes()).ok_or(ThresholdError::MalformedMaterial { what: "tweak" })
    }
}
