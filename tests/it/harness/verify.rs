//! Verification of published signatures by libraries that do not implement FROST.

use k256::schnorr::signature::hazmat::PrehashVerifier;
use k256::schnorr::{Signature, VerifyingKey};
use serde_json::Value;

/// Verifies the signature in a published view by the rules of its profile: RFC 8032 or BIP-340.
#[track_caller]
pub(crate) fn signature(view: &Value) {
    match view["result"]["signature_profile"].as_str() {
        Some("frost-ed25519-sha512") => ed25519(view),
        _ => bip340(view),
    }
}

/// Verifies by RFC 8032 that the view's signature is over its digest, under its public key.
#[track_caller]
fn ed25519(view: &Value) {
    let bytes = |name: &str| hex::decode(view["result"][name].as_str().unwrap()).unwrap();
    let key: [u8; 32] = bytes("public_key_hex").try_into().unwrap();
    let key = ed25519_dalek::VerifyingKey::from_bytes(&key).unwrap();
    let signature = ed25519_dalek::Signature::from_slice(&bytes("signature_hex")).unwrap();
    key.verify_strict(&bytes("signed_digest"), &signature).unwrap();
    assert!(key.verify_strict(&[7; 32], &signature).is_err(), "it also verifies over another digest");
}

/// Verifies by BIP-340 that the view's signature is over its digest, under its public key.
#[track_caller]
pub(crate) fn bip340(view: &Value) {
    let result = &view["result"];
    assert_eq!(result["signature_profile"], "frost-secp256k1-sha256-tr", "{view}");
    let bytes = |name: &str| hex::decode(result[name].as_str().unwrap()).unwrap();
    let key = VerifyingKey::from_bytes(&bytes("public_key_hex")).unwrap();
    let signature = Signature::try_from(bytes("signature_hex").as_slice()).unwrap();
    key.verify_prehash(&bytes("signed_digest"), &signature).unwrap();
    assert!(key.verify_prehash(&[7; 32], &signature).is_err(), "it also verifies over another digest");
}
