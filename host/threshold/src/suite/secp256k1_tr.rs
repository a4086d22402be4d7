//! FROST(secp256k1, SHA-256) with the changes that make its signatures BIP-340.

use frost_core::{Element, Scalar};
use frost_secp256k1_tr::Secp256K1Sha256TR;
use k256::elliptic_curve::ops::{MulByGenerator as _, Reduce};
use k256::schnorr::{Signature, VerifyingKey};
use k256::{ProjectivePoint, U256};

use super::{SIGNATURE_BYTES, Suite};
use crate::SignatureProfile;

/// First byte of a compressed point whose y is even (SEC 1, section 2.3.3).
const SEC1_EVEN: u8 = 2;

/// First byte of a compressed point whose y is odd.
const SEC1_ODD: u8 = 3;

impl Suite for Secp256K1Sha256TR {
    type Verifier = VerifyingKey;

    const PROFILE: SignatureProfile = SignatureProfile::FrostSecp256k1Sha256Tr;
    const POINT_BYTES: usize = 33;

    /// Decoding accepts no x above the field's order, so only the first byte can differ.
    fn is_canonical(point: &[u8]) -> bool {
        matches!(point.first(), Some(&SEC1_EVEN | &SEC1_ODD))
    }

    fn generator_times(scalar: &Scalar<Self>) -> Element<Self> {
        ProjectivePoint::mul_by_generator(scalar)
    }

    /// The x coordinate, as in BIP-340: drops the parity, which keys are stored with because derivation needs it.
    fn public_key(verifying_key: &[u8]) -> Option<[u8; 32]> {
        let (_parity, x) = verifying_key.split_first()?;
        x.try_into().ok()
    }

    fn public_key_decode(public_key: &[u8; 32]) -> Option<VerifyingKey> {
        VerifyingKey::from_bytes(public_key).ok()
    }

    fn verifies(key: &VerifyingKey, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        let signature = Signature::try_from(signature.as_slice());
        signature.is_ok_and(|signature| key.verify_raw(message, &signature).is_ok())
    }

    fn is_negated(verifying_key: &[u8]) -> bool {
        verifying_key.first() == Some(&SEC1_ODD)
    }

    fn reduce(hash: &[u8; 32]) -> Scalar<Self> {
        <Scalar<Self> as Reduce<U256>>::reduce_bytes(&(*hash).into())
    }
}
