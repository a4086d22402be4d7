//! FROST(Ed25519, SHA-512), RFC 9591 section 6.1.

use ed25519_dalek::{Signature, VerifyingKey};
use frost_core::{Element, Scalar};
use frost_ed25519::Ed25519Sha512;

use super::{SIGNATURE_BYTES, Suite, point};
use crate::SignatureProfile;

impl Suite for Ed25519Sha512 {
    type Verifier = VerifyingKey;

    const PROFILE: SignatureProfile = SignatureProfile::FrostEd25519Sha512;
    const POINT_BYTES: usize = 32;

    /// Decoding accepts no other encoding: it rejects points that are not of prime order, which all those are that have two
    /// (<https://eprint.iacr.org/2020/1244>, section 3).
    fn is_canonical(_: &[u8]) -> bool {
        true
    }

    fn generator_times(scalar: &Scalar<Self>) -> Element<Self> {
        Element::<Self>::mul_base(scalar)
    }

    fn public_key(verifying_key: &[u8]) -> Option<[u8; 32]> {
        verifying_key.try_into().ok()
    }

    /// Checks the order of the point here, because `verify_strict` only rejects small orders.
    fn public_key_decode(public_key: &[u8; 32]) -> Option<VerifyingKey> {
        point::<Self>(public_key)?;
        VerifyingKey::from_bytes(public_key).ok()
    }

    /// The key has prime order, so `R = S·G − k·A` has prime order too or is the identity, which `verify_strict` rejects.
    fn verifies(key: &VerifyingKey, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }

    fn is_negated(_: &[u8]) -> bool {
        false
    }

    fn reduce(hash: &[u8; 32]) -> Scalar<Self> {
        Scalar::<Self>::from_bytes_mod_order(*hash)
    }
}
