//! The fields of a decision, and the requests that are refused.

use crate::support::{
    NOT_AFTER, NOT_BEFORE, asset_action, authority, derivation, hex32, key, key_create, key_id, operation,
    payment, policy, recover, refresh, request, reshare, roster, rotate, sign,
};
use gateway_domain::admission::{AdmissionDecision, Derivation, Target};
use gateway_domain::approval::approvals_root;
use gateway_domain::ids::{EpochName, Hex32, KeyId, OperationId};
use gateway_domain::intent::{Bip32, Intent, OperationType};
use gateway_domain::operation::AdmissionRequest;
use gateway_domain::policy::Decision;
use gateway_domain::roster::Threshold;

#[test]
fn decision_for_a_signature_has_every_field_of_the_contract() {
    let operation = operation(asset_action(None), &["alice", "bob"]);
    let admission = sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap();
    let expected = AdmissionDecision {
        operation_id: OperationId(hex32(1)),
        operation_type: OperationType::Sign,
        intent_hash: operation.intent_hash,
        request_digest: hex32(7),
        key_id: key_id(),
        epoch: EpochName("1".into()),
        epoch_root: hex32(9),
        participants: roster(&[0, 1, 2]),
        threshold: Threshold(2),
        holders: None,
        target: None,
        derivation: None,
        bundle_hash: hex32(3),
        policy_input_hash: hex32(4),
        policy_output_hash: hex32(5),
        approvals_root: approvals_root(operation.intent_hash, &operation.approvals).unwrap(),
        not_before_ms: NOT_BEFORE,
        not_after_ms: NOT_AFTER,
    };
    assert_eq!(admission.decision, expected);
}

#[test]
fn request_can_raise_the_threshold_but_not_lower_it() {
    let mut key = key();
    for (requested, of_key, expected) in [(None, 2, 2), (Some(3), 2, 3), (Some(2), 3, 3)] {
        key.threshold = Threshold(of_key);
        let operation = operation(asset_action(requested), &["alice", "bob"]);
        let admission = sign(&operation, &policy(&["alice", "bob"], 2), Some(&key)).unwrap();
        assert_eq!(admission.decision.threshold, Threshold(expected));
    }
}

#[test]
fn derived_key_that_the_intent_does_not_request_is_refused() {
    let child = |mut intent: Intent, path: &str| {
        let bip32 = Some(Bip32 { network: "bitcoin".into(), path: path.into() });
        match &mut intent {
            Intent::Payment(payment) => payment.terms.bip32 = bip32,
            Intent::AssetAction(action) => action.terms.bip32 = bip32,
            other => panic!("{other:?}"),
        }
        intent
    };
    let paid = derivation(&payment(None), &key()).unwrap();
    let at = |payments, path: &str| {
        let public_key_hex = hex32(8).to_string();
        Some(Derivation { payments, path: Some(path.into()), public_key_hex, ..paid.clone() })
    };
    let decide = |intent: &Intent, derivation: Option<&Derivation>| {
        let (operation, policy) =
            (operation(intent.clone(), &["alice", "bob"]), policy(&["alice", "bob"], 2));
        let key = key();
        let request = AdmissionRequest { derivation, ..request(&operation, &policy, Some(&key)) };
        authority(1).sign(&request).map(|admission| admission.decision.derivation)
    };
    for (intent, derivation) in [
        (payment(None), Some(paid.clone())),
        (child(payment(None), "0/7"), at(true, "0/7")),
        (asset_action(None), None),
        (child(asset_action(None), "0/7"), at(false, "0/7")),
        (refresh(), None),
    ] {
        assert_eq!(decide(&intent, derivation.as_ref()).unwrap(), derivation);
    }
    let of_no_key = Some(Derivation { public_key_hex: String::new(), ..paid.clone() });
    let of_another_key = Some(Derivation { public_key_hex: hex32(8).to_string(), ..paid.clone() });
    for (intent, derivation) in [
        (payment(None), None),
        (payment(None), of_another_key),
        (payment(None), of_no_key),
        (payment(None), Some(Derivation { payments: false, ..paid.clone() })),
        (payment(None), at(true, "0/7")),
        (child(payment(None), "0/7"), Some(paid.clone())),
        (child(payment(None), "0/7"), at(true, "0/8")),
        (child(payment(None), "0/7"), at(false, "0/7")),
        (asset_action(None), Some(paid.clone())),
        (child(asset_action(None), "0/7"), at(true, "0/7")),
        (child(asset_action(None), "0/7"), None),
        (refresh(), Some(paid)),
    ] {
        let refused = decide(&intent, derivation.as_ref()).unwrap_err();
        assert_eq!(refused.to_string(), "the derived key is not the one that the intent requests");
    }
}

#[test]
fn key_with_another_public_key_than_the_intent_names_is_refused() {
    let own = key().public_key_artifact_ref();
    let named = |named: &str| {
        [payment(None), asset_action(None), refresh()].map(|it| it.naming(Some(named.to_owned())))
    };
    for intent in named(&own) {
        let operation = operation(intent, &["alice", "bob"]);
        sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap();
    }
    for intent in named(&own.replace("58", "59")) {
        let operation = operation(intent, &["alice", "bob"]);
        let refused = sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap_err();
        assert_eq!(refused.to_string(), "the key is not the operation's key");
    }
}

#[test]
fn key_that_the_payment_does_not_name_is_refused() {
    let operation = operation(payment(Some("vault")), &["alice", "bob"]);
    let refused = sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap_err();
    assert_eq!(refused.to_string(), "the key is not the operation's key");
}

#[test]
fn decision_for_a_key_creation_names_its_participants_and_no_epoch_root() {
    let operation = operation(key_create(), &["alice", "bob"]);
    let decision = sign(&operation, &policy(&["alice", "bob"], 2), None).unwrap().decision;
    assert_eq!(decision.participants, roster(&[0, 1, 2, 3, 4]));
    assert_eq!((decision.threshold, decision.epoch_root), (Threshold(3), Hex32::ZERO));
    assert_eq!(decision.epoch, EpochName("1".into()));
    let new_key = target(key_id(), "1", &[0, 1, 2, 3, 4], 3);
    assert_eq!((decision.target, decision.holders), (Some(new_key), None));
}

fn target(key_id: KeyId, epoch: &str, participants: &[u16], threshold: u16) -> Target {
    Target {
        key_id,
        epoch: EpochName(epoch.into()),
        participants: roster(participants),
        threshold: Threshold(threshold),
    }
}

/// The key has participants 0, 1 and 2, threshold 2 and epoch 1.
#[test]
fn decision_for_a_key_change_names_current_holders_and_target() {
    let (same, other) = (key_id(), KeyId(hex32(14)));
    let cases = [
        (refresh(), roster(&[0, 1, 2]), target(same, "2", &[0, 1, 2], 2)),
        (recover(), roster(&[0, 1, 2]), target(same, "2", &[0, 1, 2], 2)),
        (reshare(&[1, 2, 3, 4]), roster(&[0, 1, 2, 3, 4]), target(same, "2", &[1, 2, 3, 4], 3)),
        (rotate(), roster(&[0, 1, 2, 3, 4]), target(other, "2", &[2, 3, 4], 3)),
    ];
    for (intent, participants, target) in cases {
        let operation = operation(intent, &["alice", "bob"]);
        let decision = sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap().decision;
        assert_eq!((decision.key_id, decision.epoch.0.as_str(), decision.epoch_root), (same, "1", hex32(9)));
        assert_eq!((decision.threshold, decision.holders), (Threshold(2), Some(roster(&[0, 1, 2]))));
        assert_eq!((decision.participants, decision.target), (participants, Some(target)));
    }
}

#[test]
fn key_change_with_too_many_participants_or_no_successor_is_refused() {
    let sixty_four: Vec<u16> = (2..66).collect();
    let too_many = operation(reshare(&sixty_four), &["alice", "bob"]);
    let mut without_successor = operation(rotate(), &["alice", "bob"]);
    without_successor.successor = None;
    for (operation, detail) in [
        (too_many, "the operation has more participants than a decision can name"),
        (without_successor, "the operation names no target epoch"),
    ] {
        let refused = sign(&operation, &policy(&["alice", "bob"], 2), Some(&key())).unwrap_err();
        assert_eq!(refused.to_string(), detail);
    }
}

#[test]
fn inconsistent_requests_are_refused() {
    let valid = operation(asset_action(None), &["alice", "bob"]);
    let allow = policy(&["alice", "bob"], 2);
    let mut denied = allow.clone();
    denied.decision = Decision::Deny;
    let mut unsatisfied = allow.clone();
    unsatisfied.quorum.satisfied = false;
    let mut without_shares = key();
    without_shares.public = None;
    let mut other_key = key();
    other_key.key_id = KeyId(hex32(99));
    let mut changed = valid.clone();
    changed.intent = asset_action(Some(3));
    let one = operation(asset_action(None), &["alice", "alice"]);
    let key = key();
    let cases = [
        (&valid, denied, Some(&key), "the policy outcome is not `ALLOW`"),
        (&valid, unsatisfied, Some(&key), "the quorum is not satisfied: 2 of 2 approvals count"),
        (
            &valid,
            policy(&["alice", "bob"], 3),
            Some(&key),
            "the quorum is not satisfied: 2 of 3 approvals count",
        ),
        (
            &one,
            policy(&["alice", "alice"], 2),
            Some(&key),
            "the quorum is not satisfied: 1 of 2 approvals count",
        ),
        (
            &valid,
            policy(&["alice", "mallory"], 2),
            Some(&key),
            "the quorum counts `mallory`, who has not approved",
        ),
        (&valid, allow.clone(), None, "the key has no shares yet"),
        (&valid, allow.clone(), Some(&without_shares), "the key has no shares yet"),
        (&valid, allow.clone(), Some(&other_key), "the key is not the operation's key"),
        (&changed, allow.clone(), Some(&key), "the operation's intent hash does not match its intent"),
    ];
    for (operation, policy, key, detail) in cases {
        let refused = sign(operation, &policy, key).unwrap_err();
        assert_eq!(refused.to_string(), detail);
    }
}

#[test]
fn debug_output_contains_no_secret() {
    let shown = format!("{:?}", authority(0xab));
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
    assert!(shown.starts_with("Authority { key_id: \""), "{shown}");
}
