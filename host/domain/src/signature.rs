//! Verifies a threshold signature as an ordinary signature, with libraries that are unrelated to FROST.

use crate::ed25519::PublicKey;
use crate::ids::{Hex32, KeyId};
use crate::intent::{Intent, Taproot};
use crate::key::payments_public_key;
use k256::elliptic_curve::PrimeField;
use k256::elliptic_curve::group::Group;
use k256::elliptic_curve::point::AffineCoordinates;
use k256::{ProjectivePoint, Scalar};
use sha2::{Digest, Sha256};

/// Why a signature is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The profile is unknown.
    #[error("the signature profile `{0}` is unknown")]
    Profile(String),
    /// The public key or signature is not encoded correctly.
    #[error("`{0}` is malformed")]
    Encoding(&'static str),
    /// The signature does not verify.
    #[error("the signature does not verify under `{0}`")]
    Wrong(String),
}

/// Verifies a signature over a digest, by RFC 8032 (strict) or BIP-340. Key and signature are hexadecimal.
///
/// # Errors
/// [`SignatureError`].
pub fn verify(
    profile: &str,
    public_key_hex: &str,
    digest: Hex32,
    signature_hex: &str,
) -> Result<(), SignatureError> {
    let key: [u8; 32] = bytes(public_key_hex).ok_or(SignatureError::Encoding("public_key_hex"))?;
    let sig: [u8; 64] = bytes(signature_hex).ok_or(SignatureError::Encoding("signature_hex"))?;
    let message = digest.as_bytes();
    let verifies = match profile {
        "frost-ed25519-sha512" => ed25519(&key, message, &sig),
        "frost-secp256k1-sha256-tr" => bip340(&key, message, &sig),
        other => return Err(SignatureError::Profile(other.to_owned())),
    };
    match verifies {
        None => Err(SignatureError::Encoding("public_key_hex")),
        Some(false) => Err(SignatureError::Wrong(public_key_hex.to_owned())),
        Some(true) => Ok(()),
    }
}

fn ed25519(key: &[u8; 32], message: &[u8], sig: &[u8; 64]) -> Option<bool> {
    Some(PublicKey::from_bytes(key)?.verifies(message, sig))
}

fn bip340(key: &[u8; 32], message: &[u8], sig: &[u8; 64]) -> Option<bool> {
    let key = k256::schnorr::VerifyingKey::from_bytes(key).ok()?;
    let sig = k256::schnorr::Signature::try_from(sig.as_slice());
    Some(sig.is_ok_and(|sig| key.verify_raw(message, &sig).is_ok()))
}

/// Computes the Taproot output key (BIP-341) of an internal key. Both are 32 bytes, hexadecimal. Returns `None` if `internal_hex` is
/// not a public key.
#[must_use]
pub fn taproot_output_key(internal_hex: &str, merkle_root: Option<Hex32>) -> Option<String> {
    let internal: [u8; 32] = bytes(internal_hex)?;
    let tag = Sha256::digest(b"TapTweak");
    let hash = Sha256::new().chain_update(tag).chain_update(tag).chain_update(internal);
    let hash = hash.chain_update(merkle_root.as_ref().map_or(&[][..], |root| root.as_bytes())).finalize();
    let tweak = Option::<Scalar>::from(Scalar::from_repr(hash))?;
    let even = k256::schnorr::VerifyingKey::from_bytes(&internal).ok()?;
    let output = ProjectivePoint::from(*even.as_affine()) + ProjectivePoint::GENERATOR * tweak;
    let is_identity = bool::from(output.is_identity());
    (!is_identity).then(|| hex::encode(output.to_affine().x()))
}

/// The key that the intent signs with, as `<profile>:<public key hex>`, by the key with this id and public key in the same form: for a
/// payment its key for payments, and then the Taproot output key, if one is requested. `None` for a child, which follows from the chain
/// code too, and for an intent that signs nothing.
#[must_use]
pub fn signing_key(intent: &Intent, key_id: KeyId, public_key_artifact_ref: &str) -> Option<String> {
    let terms = intent.signing_terms().filter(|terms| terms.bip32.is_none())?;
    let (profile, own) = public_key_artifact_ref.split_once(':').unwrap_or_default();
    let internal = match intent {
        Intent::Payment(_) => payments_public_key(key_id, public_key_artifact_ref).unwrap_or_default(),
        Intent::AssetAction(_)
        | Intent::KeyCreate(_)
        | Intent::Refresh(_)
        | Intent::Reshare(_)
        | Intent::Rotate(_)
        | Intent::Recover(_) => own.to_owned(),
    };
    let public_key = match terms.taproot {
        None => internal,
        Some(Taproot { merkle_root }) => taproot_output_key(&internal, merkle_root).unwrap_or_default(),
    };
    Some(format!("{profile}:{public_key}"))
}

/// Decodes lowercase hexadecimal only, so that each value has one spelling.
fn bytes<const N: usize>(hexadecimal: &str) -> Option<[u8; N]> {
    let bytes: [u8; N] = hex::decode(hexadecimal).ok()?.try_into().ok()?;
    (hex::encode(bytes) == hexadecimal).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of BIP-86: internal and output keys of two receiving addresses and of a change address.
    #[test]
    fn output_keys_are_those_of_bip_86() {
        let vectors = [
            (
                "cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115",
                "a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c",
            ),
            (
                "83dfe85a3151d2517290da461fe2815591ef69f2b18a2ce63f01697a8b313145",
                "a82f29944d65b86ae6b5e5cc75e294ead6c59391a1edc5e016e3498c67fc7bbb",
            ),
            (
                "399f1b2f4393f29a18c937859c5dd8a77350103157eb880f02e8c08214277cef",
                "882d74e5d0572d5a816cef0041a96b6c1de832f6f9676d9605c44d5e9a97d3dc",
            ),
        ];
        for (internal, output) in vectors {
            assert_eq!(taproot_output_key(internal, None).as_deref(), Some(output));
        }
    }

    #[test]
    fn every_key_has_output_keys_of_either_parity() {
        let mut point = ProjectivePoint::GENERATOR;
        for _ in 0..16 {
            let internal = hex::encode(point.to_affine().x());
            let output = taproot_output_key(&internal, Some(Hex32::new([7; 32])));
            assert!(output.is_some_and(|output| output.len() == 64), "{internal}");
            point += ProjectivePoint::GENERATOR;
        }
        assert_eq!(taproot_output_key(&"00".repeat(32), None), None);
        assert_eq!(taproot_output_key("not hexadecimal", None), None);
    }
}
