//! A decision verifies with the authority's public key alone, and an altered one does not.

use crate::support::{NOT_AFTER, NOT_BEFORE, asset_action, authority, key, operation, policy, request, sign};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::admission::{
    AUTHORITIES_MAX, Admission, Authorities, AuthoritiesError, DecisionError, PAYLOAD_TYPE, verify,
};
use gateway_domain::dsse::{Envelope, EnvelopeError, Signature};
use gateway_domain::time::EpochMs;

fn keys(byte: u8) -> Authorities {
    Authorities::new([authority(byte).public_key()], 1).unwrap()
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

/// The signature of this authority over the same decision.
fn signature(byte: u8) -> Signature {
    let operation = operation(asset_action(None), &["alice", "bob"]);
    let admission =
        authority(byte).sign(&request(&operation, &policy(&["alice", "bob"], 2), Some(&key()))).unwrap();
    admission.envelope.signatures[0].clone()
}

fn pins(bytes: &[u8], threshold: usize) -> Result<Authorities, AuthoritiesError> {
    Authorities::new(bytes.iter().map(|byte| authority(*byte).public_key()), threshold)
}

#[test]
fn decision_needs_signatures_of_as_many_different_pinned_authorities_as_the_threshold() {
    let [one, two, three, unpinned] = [1, 2, 3, 9].map(signature);
    let renamed = |sig: &Signature, keyid: &str| Signature { keyid: keyid.to_owned(), ..sig.clone() };
    let (as_two, as_other) = (renamed(&one, &two.keyid), renamed(&one, &"ab".repeat(16)));
    let envelope = |signatures: &[&Signature]| Envelope {
        signatures: signatures.iter().copied().cloned().collect(),
        ..admitted().envelope
    };
    let three_pins = pins(&[1, 2, 3], 2).unwrap();
    let verified = |signatures: &[&Signature]| verify(&envelope(signatures), &three_pins, NOT_BEFORE);
    for enough in [&[&one, &two][..], &[&three, &one], &[&one, &two, &three], &[&unpinned, &one, &two]] {
        assert_eq!(verified(enough).unwrap().decision, admitted().decision);
    }
    for (what, too_few) in [
        ("one authority", &[&one][..]),
        ("the same signature twice", &[&one, &one]),
        ("an authority under a second key id", &[&one, &as_other]),
        ("a pinned authority and another one", &[&one, &unpinned]),
    ] {
        let refused = verified(too_few).unwrap_err();
        let expected = DecisionError::TooFewSignatures { n_signed: 1, threshold: 2 };
        assert_eq!(refused.to_string(), expected.to_string(), "{what}");
    }
    let refused = verified(&[&one, &as_two]).unwrap_err();
    assert!(matches!(refused, DecisionError::Envelope(EnvelopeError::BadSignature(_))), "{refused}");
    let refused = verified(&[&one, &two, &three, &unpinned]).unwrap_err();
    assert!(
        matches!(refused, DecisionError::TooManySignatures { n_signatures: 4, n_pinned: 3 }),
        "{refused}"
    );
    let all = pins(&[1, 2, 3], 3).unwrap();
    assert!(verify(&envelope(&[&one, &two]), &all, NOT_BEFORE).is_err());
    assert!(verify(&envelope(&[&one, &two, &three]), &all, NOT_BEFORE).is_ok());
}

#[test]
fn threshold_of_authorities_is_from_one_to_their_number() {
    assert!(pins(&[1, 2], 2).is_ok() && pins(&[], 1).is_ok());
    for (pinned, threshold) in [(&[1, 2][..], 0), (&[1, 2], 3), (&[1, 1], 2), (&[], 2)] {
        let refused = pins(pinned, threshold).unwrap_err();
        assert!(matches!(refused, AuthoritiesError::Threshold { .. }), "{pinned:?} {threshold}: {refused}");
    }
    let many: Vec<u8> = (1..).take(AUTHORITIES_MAX + 1).collect();
    assert!(matches!(pins(&many, 1), Err(AuthoritiesError::TooMany(_))));
    assert!(verify(&admitted().envelope, &pins(&[], 1).unwrap(), NOT_BEFORE).is_err());
}
