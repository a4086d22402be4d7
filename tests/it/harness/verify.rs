//! Signatures checked by an implementation that is not FROST.

use k256::schnorr::signature::hazmat::PrehashVerifier;
use k256::schnorr::{Signature, VerifyingKey};
use serde_json::Value;

/// BIP-340: the signature in a published view, over its digest, under its key.
#[track_caller]
pub(crate) fn bip340(view: &Value) {
    let result = &view["result"];
    assert_eq!(result["signature_profile"], "frost-secp256k1-sha256-tr", "{view}");
    let bytes = |name: &str| hex::decode(result[name].as_str().unwrap()).unwrap();
    let key = VerifyingKey::from_bytes(&bytes("public_key_hex")).unwrap();
    let signature = Signature::try_from(bytes("signature_hex").as_slice()).unwrap();
    key.verify_prehash(&bytes("signed_digest"), &signature).unwrap();
    assert!(key.verify_prehash(&[7; 32], &signature).is_err(), "it must not verify anything");
}
