//! The key for payments, which follows from a key's id and public key.
//!
//! A payment is signed with it and not with the key itself, so that no signature over a digest from a custody client is one of a
//! payment. The nodes compute it with `gateway_threshold::derive`, which has the steps and their reasons; the computation here needs no
//! more than the public key, and shares no code with that one.

use crate::canonical;
use crate::ids::KeyId;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::traits::IsIdentity;
use curve25519_dalek::{EdwardsPoint, Scalar as EdwardsScalar};
use k256::elliptic_curve::group::Group;
use k256::elliptic_curve::ops::{MulByGenerator, Reduce};
use k256::elliptic_curve::point::{AffineCoordinates, DecompressPoint};
use k256::elliptic_curve::subtle::Choice;
use k256::{AffinePoint, ProjectivePoint, Scalar, U256};

/// The public key for payments of the key with this id and `<profile>:<public key hex>`: 32 bytes, hexadecimal. `None` if the profile is
/// unknown or that is no public key of it, or, with negligible probability, if the key has none for payments.
#[must_use]
pub fn payments_public_key(key_id: KeyId, public_key_artifact_ref: &str) -> Option<String> {
    let (profile, public_key_hex) = public_key_artifact_ref.split_once(':')?;
    let public_key: [u8; 32] = hex::decode(public_key_hex).ok()?.try_into().ok()?;
    let hashed = [*key_id.0.as_bytes(), public_key].concat();
    let hash = *canonical::digest_bytes("svc/payments-key/v1", &hashed).as_bytes();
    let payments = match profile {
        "frost-ed25519-sha512" => ed25519(public_key, hash),
        "frost-secp256k1-sha256-tr" => secp256k1(public_key, hash),
        _ => None,
    }?;
    Some(hex::encode(payments))
}

fn secp256k1(public_key: [u8; 32], hash: [u8; 32]) -> Option<[u8; 32]> {
    let tweak = <Scalar as Reduce<U256>>::reduce_bytes(&hash.into());
    // The point with this x and an even y.
    let lifted: AffinePoint = Option::from(AffinePoint::decompress(&public_key.into(), Choice::from(0)))?;
    let sum = ProjectivePoint::from(lifted) + ProjectivePoint::mul_by_generator(&tweak);
    let is_derived = tweak != Scalar::ZERO && !bool::from(sum.is_identity());
    is_derived.then(|| sum.to_affine().x().into())
}

fn ed25519(public_key: [u8; 32], hash: [u8; 32]) -> Option<[u8; 32]> {
    let tweak = EdwardsScalar::from_bytes_mod_order(hash);
    let point = CompressedEdwardsY(public_key).decompress()?;
    let sum = point + EdwardsPoint::mul_base(&tweak);
    let is_derived = tweak != EdwardsScalar::ZERO && !sum.is_identity();
    // A point has one encoding as a public key.
    (is_derived && point.compress().0 == public_key).then(|| sum.compress().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// `host/domain/vectors/payments_key.py` wrote the vectors. It shares no code with this crate.
    #[test]
    fn key_for_payments_is_that_of_an_independent_implementation() {
        let vectors: Vec<Value> =
            serde_json::from_str(include_str!("../../vectors/payments_key.json")).unwrap();
        assert!(vectors.len() > 20);
        for vector in vectors {
            let text = |at: &str| vector.pointer(at).unwrap().as_str().unwrap();
            let key = format!("{}:{}", text("/signature_profile"), text("/public_key"));
            let payments = payments_public_key(KeyId(text("/key_id").parse().unwrap()), &key);
            assert_eq!(payments.as_deref(), Some(text("/payments/public_key")));
        }
    }

    #[test]
    fn what_is_no_public_key_has_no_key_for_payments() {
        let of = |key: &str| payments_public_key(KeyId(crate::ids::Hex32::ZERO), key);
        // Neither 2 is the y of a point of Ed25519, nor 5 the x of one of secp256k1; the last is 1 in another encoding.
        let one_as_p_plus_one = format!("ee{}7f", "ff".repeat(30));
        for (profile, public_key) in [
            ("frost-ed25519-sha512", format!("02{}", "00".repeat(31))),
            ("frost-secp256k1-sha256-tr", format!("{}05", "00".repeat(31))),
            ("frost-secp256k1-sha256-tr", "ff".repeat(32)),
            ("frost-secp256k1-sha256-tr", "11".repeat(31)),
            ("frost-p256", "11".repeat(32)),
            ("frost-ed25519-sha512", one_as_p_plus_one),
        ] {
            assert_eq!(of(&format!("{profile}:{public_key}")), None, "{profile} {public_key}");
        }
        assert_eq!(of(""), None);
    }
}
