//! A decision verifies with the authority's public key alone, and an altered one does not.

use crate::support::{NOT_AFTER, NOT_BEFORE, asset_action, authority, key, operation, policy, sign};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::admission::{Admission, DecisionError, PAYLOAD_TYPE, verify};
use gateway_domain::dsse::{Envelope, EnvelopeError, KeySet};
use gateway_domain::time::EpochMs;

fn keys(byte: u8) -> KeySet {
    KeySet::new([authority(byte).public_key()]).unwrap()
}

fn admitted() -> Admission {
    let operation = operation(asset_action(None), &["alice", "bob"]);
    sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap()
}

#[test]
fn decision_verifies_under_the_pinned_key() {
    let admission = admitted();
    assert_eq!(verify(&admission.envelope, &keys(1), NOT_BEFORE).unwrap(), admission);
}

#[test]
fn decision_of_another_key_is_rejected() {
    let envelope = admitted().envelope;
    let refused = verify(&envelope, &keys(2), NOT_BEFORE).unwrap_err();
    assert!(matches!(refused, DecisionError::Envelope(EnvelopeError::UnknownSigner)));
}

#[test]
fn decision_is_valid_from_not_before_until_before_not_after() {
    let envelope = admitted().envelope;
    for now in [EpochMs(NOT_BEFORE.0 - 1), NOT_AFTER, EpochMs(u64::MAX)] {
        assert!(matches!(verify(&envelope, &keys(1), now), Err(DecisionError::Expired { .. })), "{now:?}");
    }
    assert!(verify(&envelope, &keys(1), EpochMs(NOT_AFTER.0 - 1)).is_ok());
}

/// The envelope with one byte of a base64 field flipped.
fn flipped(field: &str, at: usize) -> String {
    let mut bytes = STANDARD.decode(field).unwrap();
    bytes[at] ^= 1;
    STANDARD.encode(bytes)
}

#[test]
fn every_altered_byte_of_payload_or_signature_is_detected() {
    let envelope = admitted().envelope;
    let n_bytes = STANDARD.decode(&envelope.payload).unwrap().len();
    assert!(n_bytes > 500);
    for at in 0..n_bytes {
        let changed = Envelope { payload: flipped(&envelope.payload, at), ..envelope.clone() };
        assert!(verify(&changed, &keys(1), NOT_BEFORE).is_err(), "payload byte {at}");
    }
    for at in 0..64 {
        let mut changed = envelope.clone();
        changed.signatures[0].sig = flipped(&envelope.signatures[0].sig, at);
        assert!(verify(&changed, &keys(1), NOT_BEFORE).is_err(), "signature byte {at}");
    }
    let retyped = Envelope { payload_type: format!("{PAYLOAD_TYPE}x"), ..envelope };
    assert!(verify(&retyped, &keys(1), NOT_BEFORE).is_err());
}
