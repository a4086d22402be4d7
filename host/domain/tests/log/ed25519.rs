//! Edge cases of Ed25519: verification is strict, also in envelopes and notes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Verifier as _;
use gateway_domain::dsse::{Envelope, EnvelopeError, KeySet, key_id};
use gateway_domain::ed25519::PublicKey;
use gateway_domain::log::note::NoteError;
use gateway_domain::log::{KeyName, SignedNote, VerifierKey};
use serde_json::Value;

/// The numbers of the cases that verify, of 914. In all of them, the key and commitment have full order, perhaps with
/// a component of small order, and the plain equation is true.
const ACCEPTED: [u64; 43] = [
    7, 29, 50, 117, 139, 161, 182, 249, 305, 411, 425, 438, 465, 473, 481, 489, 497, 511, 525, 538, 565, 573,
    581, 589, 597, 611, 625, 638, 665, 673, 681, 689, 697, 711, 725, 738, 765, 773, 781, 789, 797, 832, 899,
];

fn cases() -> Vec<Value> {
    let cases: Value = serde_json::from_str(include_str!("../vectors/cctv-ed25519.json")).unwrap();
    cases.as_array().unwrap().clone()
}

fn bytes<const N: usize>(case: &Value, name: &str) -> [u8; N] {
    hex::decode(case[name].as_str().unwrap()).unwrap().try_into().unwrap()
}

fn verifies(case: &Value) -> bool {
    let message = case["msg"].as_str().unwrap().as_bytes();
    PublicKey::from_bytes(&bytes(case, "key")).is_some_and(|key| key.verifies(message, &bytes(case, "sig")))
}

#[test]
fn strict_verification_accepts_exactly_these_cases() {
    let cases = cases();
    assert_eq!(cases.len(), 914);
    let accepted: Vec<u64> =
        cases.iter().filter(|case| verifies(case)).map(|case| case["number"].as_u64().unwrap()).collect();
    assert_eq!(accepted, ACCEPTED);
}

#[test]
fn accepted_cases_have_no_flag_other_than_a_component_of_small_order() {
    for case in cases() {
        let flags = case["flags"].as_array().into_iter().flatten();
        let is_harmless = flags
            .into_iter()
            .all(|flag| ["low_order_component_A", "low_order_component_R"].contains(&flag.as_str().unwrap()));
        assert_eq!(ACCEPTED.contains(&case["number"].as_u64().unwrap()), is_harmless, "{case}");
    }
}

/// A key of order one, and the signature R = B, S = 1, which satisfies its equation for every message.
fn forgery() -> ([u8; 32], [u8; 64]) {
    let mut key = [0; 32];
    key[0] = 1;
    let mut signature = [0x66; 64];
    signature[0] = 0x58;
    signature[32..].copy_from_slice(&key);
    (key, signature)
}

#[test]
fn forgery_passes_plain_verification() {
    let (key, signature) = forgery();
    let key = ed25519_dalek::VerifyingKey::from_bytes(&key).unwrap();
    let signature = ed25519_dalek::Signature::from_bytes(&signature);
    assert!(key.verify(b"anything", &signature).is_ok());
}

#[test]
fn envelopes_are_verified_strictly() {
    let (key, signature) = forgery();
    let envelope = Envelope::seal("text", b"anything", &[(key_id(&key), signature)]);
    let keys = KeySet::new([key]).unwrap();
    assert_eq!(envelope.verify("text", &keys), Err(EnvelopeError::BadSignature(key_id(&key))));
}

#[test]
fn notes_are_verified_strictly() {
    let (key, signature) = forgery();
    let name: KeyName = "example.com/log".parse().unwrap();
    let key = VerifierKey::new(name.clone(), PublicKey::from_bytes(&key).unwrap());
    let shown = key.to_string();
    let id = hex::decode(shown.split('+').nth(1).unwrap()).unwrap();
    let line = STANDARD.encode([&id[..], &signature].concat());
    let note: SignedNote = format!("anything\n\n\u{2014} {name} {line}\n").parse().unwrap();
    assert_eq!(note.verify([&key]), Err(NoteError::BadSignature(name)));
}
