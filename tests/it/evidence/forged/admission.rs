//! The signed decision must match the operation. The attacker can sign any decision, since it has the authority's key.

use super::{Alter, Forgery};
use crate::harness::samples::with;
use serde_json::{Value, json};

const DECISION: &str = "decision_signed";

/// A hash or key that occurs nowhere in the evidence.
fn other() -> Value {
    json!("11".repeat(32))
}

fn derivation(path: &str) -> Value {
    json!({ "payments": true, "path": path, "tweak": other(), "public_key_hex": other() })
}

#[tokio::test]
async fn decision_that_does_not_match_the_operation_is_found() {
    let forgery = Forgery::of_payment().await;
    for (name, value) in [
        ("operation_id", other()),
        ("operation_type", json!("refresh")),
        ("intent_hash", other()),
        ("request_digest", other()),
        ("key_id", other()),
        ("bundle_hash", other()),
        ("policy_input_hash", other()),
        ("policy_output_hash", other()),
        ("approvals_root", other()),
    ] {
        let forged = forgery.forger.with_decision(|decision| decision[name] = value).await;
        forgery.assert_finds(&forged, &forgery.at(DECISION, &format!("/admission/decision/{name}: ")));
    }
}

#[tokio::test]
async fn decision_with_an_unrequested_derived_key_is_found() {
    let plain = Forgery::of_payment().await;
    let child = Forgery::of_child_key().await;
    for (forgery, derivation) in [
        (&plain, derivation("0/7")),
        (&child, Value::Null),
        (&child, derivation("0/8")),
        (&child, derivation("00/7")),
        (&plain, Value::Null),
        (&plain, json!({ "payments": true, "taproot": {}, "tweak": other(), "public_key_hex": other() })),
        (&child, with(derivation("0/7"), "/taproot", json!({}))),
        (&child, json!({ "path": "0/7", "tweak": other(), "public_key_hex": other() })),
        (&plain, json!({ "tweak": other(), "public_key_hex": other() })),
    ] {
        let alter = |decision: &mut Value| decision["derivation"] = derivation;
        let forged = forgery.forger.with_decision(alter).await;
        forgery.assert_finds(&forged, &forgery.at(DECISION, "/admission/decision/derivation: "));
    }
}

#[tokio::test]
async fn decision_that_differs_from_its_signed_envelope_is_found() {
    let forgery = Forgery::of_payment().await;
    let alterations: [(Alter, &str); 4] = [
        (|event| event["change"]["admission"]["decision"]["epoch"] = json!("9"), "/admission/decision: "),
        (|event| event["change"]["admission"]["admission_hash"] = other(), "/admission/admission_hash: "),
        (|event| event["at_ms"] = json!(1), "/admission/envelope: "),
        (
            |event| event["change"]["admission"]["envelope"]["payloadType"] = json!("text/plain"),
            "/admission/envelope: ",
        ),
    ];
    for (alter, rest) in alterations {
        forgery.assert_alteration_found(DECISION, alter, rest).await;
    }
}

#[tokio::test]
async fn quorum_that_the_approvals_do_not_support_is_found() {
    let forgery = Forgery::of_payment().await;
    let alterations: [Alter; 5] = [
        |policy| policy["decision"] = json!("DENY"),
        |policy| policy["quorum"]["satisfied"] = json!(false),
        |policy| policy["quorum"]["required"] = json!(3),
        |policy| policy["quorum"]["subjects"] = json!(["alice"]),
        |policy| policy["quorum"]["subjects"] = json!(["alice", "bob", "mallory"]),
    ];
    for alter in alterations {
        let alter_policy = |event: &mut Value| alter(&mut event["change"]["policy"]);
        forgery.assert_alteration_found(DECISION, alter_policy, "/policy/quorum: ").await;
    }
}

#[tokio::test]
async fn policy_outcome_with_other_input_or_output_hash_is_found() {
    let forgery = Forgery::of_payment().await;
    for kind in ["submitted", "approval_recorded", DECISION] {
        for name in ["input_hash", "output_hash"] {
            let alter = |event: &mut Value| event["change"]["policy"][name] = other();
            forgery.assert_alteration_found(kind, alter, &format!("/policy/{name}: ")).await;
        }
    }
}

#[tokio::test]
async fn policy_outcome_of_an_untrusted_bundle_is_found() {
    let mut forgery = Forgery::of_payment().await;
    let decided = forgery.forger.first(DECISION)["change"]["policy"]["bundle_hash"].clone();
    forgery.roots.bundles = vec![serde_json::from_value(decided).unwrap()];
    assert_eq!(forgery.findings(&forgery.evidence), [""; 0]);
    forgery.roots.bundles = vec![serde_json::from_value(other()).unwrap()];
    for kind in ["submitted", "approval_recorded", DECISION] {
        forgery.assert_finds(
            &forgery.evidence,
            &forgery.at(kind, "/policy/bundle_hash: the roots do not list the bundle"),
        );
    }
}

#[tokio::test]
async fn altered_intent_under_the_same_hash_is_found() {
    let forgery = Forgery::of_payment().await;
    let alter = |event: &mut Value| event["change"]["intent"]["amount_minor"] = json!(1);
    forgery.assert_finds(&forgery.forger.with_event("submitted", alter).await, "/intent_hash: ");
}
