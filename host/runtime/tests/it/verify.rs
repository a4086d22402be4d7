//! Signatures as strangers see them.

use gateway_domain::operation::SignatureResult;

/// Checks a signature with a library that shares no protocol code with FROST.
pub(crate) fn check(result: &SignatureResult) {
    let public_key: [u8; 32] = hex::decode(&result.public_key_hex).unwrap().try_into().unwrap();
    let signature: [u8; 64] = hex::decode(&result.signature_hex).unwrap().try_into().unwrap();
    let message = result.signed_digest.as_bytes();
    match result.signature_profile.as_str() {
        "frost-ed25519-sha512" => {
            let key = ed25519_dalek::VerifyingKey::from_bytes(&public_key).unwrap();
            key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature)).unwrap();
        }
        "frost-secp256k1-sha256-tr" => {
            let key = k256::schnorr::VerifyingKey::from_bytes(&public_key).unwrap();
            key.verify_raw(message, &k256::schnorr::Signature::try_from(signature.as_slice()).unwrap())
                .unwrap();
        }
        other => panic!("no library for {other}"),
    }
}
