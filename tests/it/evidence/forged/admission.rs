//! The signed decision: the authority's key can sign any decision, so it must match this operation.

use super::{Alter, Forgery};
use serde_json::{Value, json};

const DECISION: &str = "decision_signed";

fn other() -> Value {
    json!("11".repeat(32))
}

fn child(path: &str) -> Value {
    json!({ "path": path, "tweak": other(), "public_key_hex": other() })
}

#[tokio::test]
async fn decision_that_does_not_match_the_operation_is_found() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    for (name, value) in [
        ("operation_id", other()),
        ("operation_type", json!("refresh")),
        ("intent_hash", other()),
        ("request_digest", other()),
        ("key_id", other()),
        ("serves", json!("asset_actions")),
        ("bundle_hash", other()),
        ("policy_input_hash", other()),
        ("policy_output_hash", other()),
        ("approvals_root", other()),
    ] {
        let written = forgery.forger.decision(|decision| decision[name] = value).await;
        forgery.assert_finds(&written, &forgery.at(DECISION, &format!("/admission/decision/{name}: ")));
    }
}

#[tokio::test]
async fn decision_with_an_unrequested_child_key_is_found() {
    let plain = Forgery::of_payment("/threshold", json!(2)).await;
    let of_child = Forgery::of_child_key().await;
    for (forgery, derivation) in [
        (&plain, child("0/7")),
        (&of_child, Value::Null),
        (&of_child, child("0/8")),
        (&of_child, child("00/7")),
    ] {
        let alter = |decision: &mut Value| decision["derivation"] = derivation;
        let written = forgery.forger.decision(alter).await;
        forgery.assert_finds(&written, &forgery.at(DECISION, "/admission/decision/derivation: "));
    }
}

#[tokio::test]
async fn decision_that_differs_from_its_signed_envelope_is_found() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
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
        let written = forgery.forger.event(DECISION, alter).await;
        forgery.assert_finds(&written, &forgery.at(DECISION, rest));
    }
}

#[tokio::test]
async fn quorum_that_the_approvals_do_not_support_is_found() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let alterations: [Alter; 5] = [
        |policy| policy["decision"] = json!("DENY"),
        |policy| policy["quorum"]["satisfied"] = json!(false),
        |policy| policy["quorum"]["required"] = json!(3),
        |policy| policy["quorum"]["subjects"] = json!(["alice"]),
        |policy| policy["quorum"]["subjects"] = json!(["alice", "bob", "mallory"]),
    ];
    for alter in alterations {
        let written = forgery.forger.event(DECISION, |event| alter(&mut event["change"]["policy"])).await;
        forgery.assert_finds(&written, &forgery.at(DECISION, "/policy/quorum: "));
    }
}

#[tokio::test]
async fn policy_outcome_with_other_input_or_output_hash_is_found() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    for kind in ["submitted", "approval_recorded", DECISION] {
        for name in ["input_hash", "output_hash"] {
            let written = forgery.forger.event(kind, |event| event["change"]["policy"][name] = other()).await;
            forgery.assert_finds(&written, &forgery.at(kind, &format!("/policy/{name}: ")));
        }
    }
}

#[tokio::test]
async fn policy_outcome_of_an_untrusted_bundle_is_found() {
    let mut forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let decided = forgery.forger.first(DECISION)["change"]["policy"]["bundle_hash"].clone();
    forgery.roots.bundles = vec![serde_json::from_value(decided).unwrap()];
    assert_eq!(forgery.found(&forgery.evidence), [""; 0]);
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
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let alter = |event: &mut Value| event["change"]["intent"]["amount_minor"] = json!(1);
    forgery.assert_finds(&forgery.forger.event("submitted", alter).await, "/intent_hash: ");
}
