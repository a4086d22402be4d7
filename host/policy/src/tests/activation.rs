//! Activation records: their signatures, expiry and format.

use crate::BundleError;
use crate::bundle::{ActivationRecord, REASON_BYTES_MAX, SignedActivation};
use crate::testing::{NOW, author, key, public, role, trust};
use ed25519_dalek::SigningKey;
use gateway_domain::dsse::Envelope;
use gateway_domain::time::EpochMs;
use serde_json::{Value, json};

fn record() -> ActivationRecord {
    ActivationRecord {
        sequence: 7,
        bundle_hash: public(&key(9)),
        reason: "bundle 6 refuses payroll".into(),
        not_after_ms: Some(NOW),
    }
}

fn file(envelope: &Envelope) -> Vec<u8> {
    serde_json::to_vec_pretty(envelope).unwrap()
}

fn verify(record: &ActivationRecord, keys: &[&SigningKey]) -> Result<SignedActivation, BundleError> {
    ActivationRecord::verify(&file(&record.sign(keys).unwrap()), &author(), NOW)
}

#[test]
fn signed_record_is_read_back_unchanged() {
    let signed = verify(&record(), &[&key(1)]).unwrap();
    assert_eq!((signed.record(), signed.signers().len()), (&record(), 1));
    let envelope = record().sign(&[]).unwrap();
    let payload = String::from_utf8(envelope.payload(&envelope.payload_type).unwrap()).unwrap();
    let expected = format!(
        r#"{{"bundle_hash":"{}","not_after_ms":"1700000000000","reason":"bundle 6 refuses payroll","sequence":"7"}}"#,
        public(&key(9))
    );
    assert_eq!(payload, expected, "other tools sign this format too");
}

#[test]
fn each_role_signs_and_signatures_can_be_added_one_after_another() {
    let (first, second, security) = (key(1), key(2), key(3));
    let policy = trust(vec![role("author", 2, &[&first, &second]), role("security", 1, &[&security])], &[]);
    let check = |envelope: &Envelope| ActivationRecord::verify(&file(envelope), &policy, NOW);
    let one = record().sign(&[&first]).unwrap();
    let unmet = check(&one).unwrap_err();
    assert!(matches!(&unmet, BundleError::RoleUnmet { role, have: 1, .. } if role == "author"), "{unmet}");
    let two = ActivationRecord::countersign(&one, &second).unwrap();
    assert!(matches!(check(&two), Err(BundleError::RoleUnmet { have: 0, .. })));
    let three = ActivationRecord::countersign(&two, &security).unwrap();
    assert_eq!(check(&three).unwrap().signers().len(), 3);
    let again = ActivationRecord::countersign(&three, &security).unwrap();
    assert_eq!(again.signatures.len(), 3);
    let mut doubled = two;
    doubled.signatures.push(one.signatures[0].clone());
    assert!(check(&doubled).is_err(), "two signatures by one key count as one");
}

#[test]
fn signatures_by_unknown_and_revoked_keys_do_not_count() {
    assert!(matches!(verify(&record(), &[&key(2)]), Err(BundleError::RoleUnmet { have: 0, .. })));
    assert!(matches!(verify(&record(), &[]), Err(BundleError::RoleUnmet { have: 0, .. })));
    let revoking = trust(vec![role("author", 1, &[&key(1), &key(2)])], &[&key(1)]);
    let bytes = file(&record().sign(&[&key(1)]).unwrap());
    assert!(matches!(
        ActivationRecord::verify(&bytes, &revoking, NOW),
        Err(BundleError::RoleUnmet { have: 0, .. })
    ));
}

#[test]
fn expired_record_is_refused() {
    let until = |not_after_ms| verify(&ActivationRecord { not_after_ms, ..record() }, &[&key(1)]);
    assert!(until(None).is_ok());
    let late = until(Some(EpochMs(NOW.0 - 1))).unwrap_err();
    assert!(matches!(late, BundleError::ActivationExpired { .. }), "{late}");
}

#[test]
fn record_without_reason_or_canonical_form_is_refused() {
    for reason in [String::new(), " ".into(), "x".repeat(REASON_BYTES_MAX + 1)] {
        assert!(matches!(ActivationRecord { reason, ..record() }.sign(&[&key(1)]), Err(BundleError::Reason)));
    }
    let resealed = |payload: &str| {
        let mut envelope: Value = serde_json::to_value(record().sign(&[&key(1)]).unwrap()).unwrap();
        let payload = Envelope::seal(crate::bundle::ACTIVATION_PAYLOAD_TYPE, payload.as_bytes(), &[]);
        envelope["payload"] = json!(payload.payload);
        ActivationRecord::verify(envelope.to_string().as_bytes(), &author(), NOW).unwrap_err()
    };
    let hash = public(&key(9));
    let spaced = resealed(&format!(r#"{{"bundle_hash": "{hash}","reason":"r","sequence":"7"}}"#));
    assert!(matches!(spaced, BundleError::NotStrict { .. }), "{spaced}");
    let number = resealed(&format!(r#"{{"bundle_hash":"{hash}","reason":"r","sequence":7}}"#));
    assert!(matches!(number, BundleError::NotStrict { .. }), "{number}");
    let unknown_member =
        resealed(&format!(r#"{{"bundle_hash":"{hash}","reason":"r","sequence":"7","force":true}}"#));
    assert!(matches!(unknown_member, BundleError::Json { .. }), "{unknown_member}");
    let other = resealed(&format!(r#"{{"bundle_hash":"{hash}","reason":"r","sequence":"8"}}"#));
    assert!(matches!(other, BundleError::Signature { .. }), "the signature is for another record: {other}");
}

#[test]
fn signed_manifest_is_refused_as_activation_record() {
    let files = crate::testing::signed(&crate::testing::committed(), &[&key(1)], |_| ());
    let (_, bytes) = files.iter().find(|(name, _)| name.starts_with("signatures/")).unwrap();
    let refused = ActivationRecord::verify(bytes, &author(), NOW).unwrap_err();
    assert!(matches!(refused, BundleError::Signature { .. }), "{refused}");
}
