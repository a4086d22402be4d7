//! Project Wycheproof: vectors for the supported signature algorithms, verified with [`Key`].

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gateway_auth::jose::{Key, KeyFault};
use serde_json::{Value, json};
use wycheproof::{ecdsa, eddsa, rsa_pkcs1_verify, rsa_pss_verify};

/// The numbers of vectors by their expected result, and of rejected keys.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    valid: usize,
    invalid: usize,
    acceptable: usize,
    keys_rejected: usize,
}

fn bytes(hex: &Value) -> Vec<u8> {
    hex::decode(hex.as_str().unwrap()).unwrap()
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Runs the vectors of a file, except those whose key is rejected: only the valid ones verify.
fn run(data: &str, jwk: impl Fn(&Value) -> Value) -> Tally {
    let document: Value = serde_json::from_str(data).unwrap();
    let mut tally = Tally::default();
    for group in document["testGroups"].as_array().unwrap() {
        let jwk = jwk(&group["publicKey"]);
        let key = match Key::parse(jwk.as_object().unwrap()) {
            Ok(key) => key,
            Err(fault) => {
                assert_eq!(fault, KeyFault::Size, "{jwk}");
                tally.keys_rejected += 1;
                continue;
            }
        };
        for test in group["tests"].as_array().unwrap() {
            let verifies = key.verifies(&bytes(&test["msg"]), &encoded(&bytes(&test["sig"])));
            let check =
                |expected: bool| assert_eq!(verifies, expected, "{} {}", test["tcId"], test["comment"]);
            match test["result"].as_str().unwrap() {
                "valid" => {
                    check(true);
                    tally.valid += 1;
                }
                "acceptable" => {
                    check(false);
                    tally.acceptable += 1;
                }
                _ => {
                    check(false);
                    tally.invalid += 1;
                }
            }
        }
    }
    tally
}

fn point(crv: &'static str) -> impl Fn(&Value) -> Value {
    move |key| {
        let point = bytes(&key["uncompressed"]);
        let (x, y) = point[1..].split_at(point.len() / 2);
        json!({ "kty": "EC", "crv": crv, "x": encoded(x), "y": encoded(y) })
    }
}

fn rsa(alg: &'static str) -> impl Fn(&Value) -> Value {
    move |key| {
        let (n, e) = (encoded(&bytes(&key["modulus"])), encoded(&bytes(&key["publicExponent"])));
        json!({ "kty": "RSA", "alg": alg, "n": n, "e": e })
    }
}

#[test]
fn wycheproof_ecdsa_p1363() {
    let p256 = run(ecdsa::TestName::EcdsaSecp256r1Sha256P1363.json_data(), point("P-256"));
    let p384 = run(ecdsa::TestName::EcdsaSecp384r1Sha384P1363.json_data(), point("P-384"));
    for tally in [p256, p384] {
        assert!(tally.valid > 100 && tally.invalid > 50 && tally.keys_rejected == 0, "{tally:?}");
    }
}

#[test]
fn wycheproof_ed25519() {
    let jwk = |key: &Value| json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(&bytes(&key["pk"])) });
    let tally = run(eddsa::TestName::Ed25519.json_data(), jwk);
    assert!(tally.valid > 50 && tally.invalid > 50 && tally.keys_rejected == 0, "{tally:?}");
}

#[test]
fn wycheproof_rsa_pkcs_1() {
    use rsa_pkcs1_verify::TestName;
    for name in
        [TestName::Rsa2048Sha256, TestName::Rsa3072Sha256, TestName::Rsa4096Sha256, TestName::Rsa8192Sha256]
    {
        let tally = run(name.json_data(), rsa("RS256"));
        assert!(tally.valid > 0 && tally.invalid > 0, "{name:?} {tally:?}");
    }
}

#[test]
fn wycheproof_rsa_pss() {
    use rsa_pss_verify::TestName;
    for name in [
        TestName::RsaPss2048Sha256Mgf1SaltLen32,
        TestName::RsaPss3072Sha256Mgf1SaltLen32,
        TestName::RsaPss4096Sha256Mgf1SaltLen32,
    ] {
        let tally = run(name.json_data(), rsa("PS256"));
        assert!(tally.valid > 0 && tally.invalid > 0, "{name:?} {tally:?}");
    }
}
