//! Signed receipts of nodes: an attacker without a node's key cannot claim that the node performed a step.

use super::super::not_checked;
use super::{Alter, Forgery, assert_holds};
use crate::harness::custody;
use crate::harness::samples::{admit, approval, path, payment, submit, with};
use crate::harness::world::World;
use gateway_evidence::Verdict;
use gateway_evidence::verify::Status;
use serde_json::{Value, json};

/// The beginning of the findings on a step with too few receipts, and on a signature without a receipt of each signer.
const TOO_FEW: &str = "/receipts: too few receipts";
const NOT_THE_SIGNERS: &str = "/receipts: there must be exactly one receipt from each signer";

fn receipts(event: &mut Value) -> &mut Vec<Value> {
    event["change"]["receipts"].as_array_mut().unwrap()
}

fn keep_receipts(n: usize) -> impl FnOnce(&mut Value) {
    move |event| receipts(event).truncate(n)
}

fn repeat_first_receipt(event: &mut Value) {
    let first = receipts(event)[0].clone();
    receipts(event).push(first);
}

fn remove_last_signer(event: &mut Value) {
    event["change"]["signature"]["signers"].as_array_mut().unwrap().pop();
}

#[tokio::test]
async fn executed_event_requires_a_receipt_of_each_signer() {
    let forgery = Forgery::of_payment_with("/threshold", json!(3)).await;
    let alterations: [Alter; 4] = [
        |event| drop(receipts(event).pop()),
        |event| receipts(event).clear(),
        |event| receipts(event)[1] = receipts(event)[0].clone(),
        repeat_first_receipt,
    ];
    for alter in alterations {
        forgery.assert_only_alteration_found("executed", alter, NOT_THE_SIGNERS).await;
    }
    forgery.assert_alteration_found("executed", remove_last_signer, NOT_THE_SIGNERS).await;
}

/// Before publication the signature is hidden, but its signers are on record.
#[tokio::test]
async fn unpublished_signature_requires_a_receipt_of_each_signer() {
    let forgery = Forgery::of_payment_with("/threshold", json!(3)).await;
    let executed = forgery.forger.index_of("executed");
    let alter = |events: &mut Vec<Value>| {
        events.truncate(executed + 1);
        receipts(&mut events[executed]).pop();
    };
    let forged = forgery.forger.with_events(alter).await;
    forgery.assert_finds_only(&forged, &forgery.at("executed", NOT_THE_SIGNERS));
}

#[tokio::test]
async fn signing_step_requires_receipts_of_enough_nodes() {
    let forgery = Forgery::of_payment_with("/threshold", json!(3)).await;
    for (kind, too_few) in
        [("admission_applied", &[0, 2][..]), ("receipt_materialized", &[0, 2]), ("published", &[0])]
    {
        for n_left in too_few {
            forgery.assert_only_alteration_found(kind, keep_receipts(*n_left), TOO_FEW).await;
        }
        forgery.assert_only_alteration_found(kind, repeat_first_receipt, TOO_FEW).await;
    }
}

#[tokio::test]
async fn resharing_step_requires_receipts_of_all_share_holders() {
    for forgery in Forgery::of_creation_and_refresh().await {
        for kind in ["admission_applied", "receipt_materialized", "epoch_decided", "published"] {
            for n_left in [0, 2] {
                forgery.assert_only_alteration_found(kind, keep_receipts(n_left), TOO_FEW).await;
            }
        }
        let forged = forgery.forger.with_event("epoch_acked", keep_receipts(2)).await;
        forgery.assert_finds_only(&forged, &forgery.at("executed", "/receipts: not all nodes"));
    }
}

#[tokio::test]
async fn node_without_a_share_need_not_sign_the_publication() {
    let body = with(custody::reshare("2"), "/new_participants", json!([3, 4]));
    let forgery = Forgery::of_change("/reshare", with(body, "/threshold", json!(2))).await;
    let is_of = |receipt: &Value, nodes: &[u64]| nodes.contains(&receipt["participant"].as_u64().unwrap());
    let findings_with_receipts_of = async |nodes: &[u64]| {
        let alter = |event: &mut Value| receipts(event).retain(|receipt| is_of(receipt, nodes));
        forgery.findings(&forgery.forger.with_event("published", alter).await)
    };
    assert_eq!(findings_with_receipts_of(&[3, 4]).await, [""; 0]);
    assert_eq!(findings_with_receipts_of(&[0, 1, 2, 3]).await.len(), 1);
}

#[tokio::test]
async fn failed_key_creation_needs_discard_receipts() {
    let world = World::ticking().await;
    world.faults.set_rejecting(true);
    let create = custody::admit(&world, "/v1/custody/keys", &custody::key("cold")).await;
    world.post_nothing(&custody::path(&create, "/execute")).await.fails(409, "operation_failed");
    let forgery = Forgery::of(&world, &custody::path(&create, "/evidence")).await;
    assert_eq!(forgery.findings(&forgery.evidence), [""; 0]);
    for n_left in [0, 2] {
        forgery.assert_only_alteration_found("failed", keep_receipts(n_left), TOO_FEW).await;
    }
}

/// Of a signing operation that failed because its nodes rejected the ceremony.
async fn rejected_signature() -> Forgery {
    let world = World::ticking().await;
    let operation = admit(&world, &payment("refused")).await;
    world.faults.set_rejecting(true);
    world.post_nothing(&path(&operation, "/execute")).await.fails(409, "operation_failed");
    Forgery::of(&world, &path(&operation, "/evidence")).await
}

/// Without the receipts, a gateway could report a failure and keep the signature.
#[tokio::test]
async fn failed_signing_operation_needs_discard_receipts() {
    let forgery = rejected_signature().await;
    assert_eq!(forgery.evidence["state"], "failed");
    let steps: Vec<_> =
        forgery.evidence["receipts"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, ["admission", "policy-receipt", "discard"]);
    let report = forgery.verify(&forgery.evidence);
    assert_holds(&report, &["receipts", "ending"]);
    let ending = report.checks.iter().find(|check| check.name == "ending").unwrap();
    assert_eq!(
        ending.status,
        Status::Holds("failed: 3 of 3 nodes discarded the operation, and a signature needs 2".to_owned())
    );
    let forged = forgery.forger.with_event("failed", keep_receipts(2)).await;
    assert_eq!(forgery.findings(&forged), [""; 0], "the third node alone cannot sign");
    for n_left in [0, 1] {
        forgery.assert_only_alteration_found("failed", keep_receipts(n_left), TOO_FEW).await;
    }
    // A receipt is valid for its own step only.
    let admitted = receipts(&mut forgery.forger.first("admission_applied")).clone();
    forgery.assert_alteration_found("failed", |event| *receipts(event) = admitted, "/receipts/0: ").await;
}

/// The attacker ends the history of a signed payment with `failed`, to keep the signature.
#[tokio::test]
async fn admitted_signature_does_not_fail_without_discard_receipts() {
    let mut failed = rejected_signature().await.forger.first("failed");
    failed["settles"] = Value::Null;
    failed["change"]["receipts"] = json!([]);
    let forgery = Forgery::of_payment().await;
    let at_ms = forgery.forger.first("published")["at_ms"].clone();
    failed["at_ms"] = at_ms;
    for last in ["decision_signed", "admission_applied", "ceremony_started", "executed"] {
        let cut = forgery.forger.index_of(last) + 1;
        let alter = |events: &mut Vec<Value>| {
            events.truncate(cut);
            events.push(failed.clone());
        };
        let forged = forgery.forger.with_events(alter).await;
        forgery.assert_finds(&forged, &format!("/events/{cut}/event/change/type: cannot happen"));
    }
    // Before a decision it can, but that is the gateway's word.
    let cut = forgery.forger.index_of("decision_signed");
    let alter = |events: &mut Vec<Value>| {
        events.truncate(cut);
        events.push(failed);
    };
    let report = forgery.verify(&forgery.forger.with_events(alter).await);
    assert_eq!(report.verdict(), Verdict::NotChecked, "{report:?}");
    assert!(not_checked(&report).iter().any(|(name, _)| *name == "ending"), "{report:?}");
}

#[tokio::test]
async fn operation_expired_before_a_decision_needs_no_receipts() {
    let world = World::ticking_with(&[("approval_ttl_ms", "1")]).await;
    let operation = submit(&world, &payment("expired")).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.fails(409, "operation_failed");
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    assert_eq!(forgery.evidence["state"], "failed");
    assert_eq!(forgery.findings(&forgery.evidence), [""; 0]);
    let report = forgery.verify(&forgery.evidence);
    let why = not_checked(&report);
    assert!(
        why.iter().any(|(name, why)| *name == "ending"
            && why.contains("the logs of nodes 0, 1, 2 would show whether they did more")),
        "{why:?}"
    );
}

#[tokio::test]
async fn key_creation_without_receipts_is_found() {
    let forgery = Forgery::of_creation().await;
    let alter = |events: &mut Vec<Value>| {
        for event in events {
            event["change"]
                .as_object_mut()
                .unwrap()
                .entry("receipts")
                .and_modify(|receipts| *receipts = json!([]));
        }
    };
    let forged = forgery.forger.with_events(alter).await;
    forgery.assert_finds(&forged, &forgery.at("epoch_decided", "/receipts: "));
}

#[tokio::test]
async fn receipt_with_another_node_step_or_signature_is_found() {
    let forgery = Forgery::of_payment().await;
    let alterations: [Alter; 3] = [
        |receipt| receipt["node_signature"] = json!("11".repeat(64)),
        |receipt| receipt["transition_hash"] = json!("11".repeat(32)),
        |receipt| receipt["participant"] = json!(9),
    ];
    for alter in alterations {
        let alter_first = |event: &mut Value| alter(&mut receipts(event)[0]);
        forgery.assert_alteration_found("published", alter_first, "/receipts/0: ").await;
    }
    let applied = receipts(&mut forgery.forger.first("admission_applied")).clone();
    let replace = |event: &mut Value| *receipts(event) = applied;
    forgery.assert_alteration_found("published", replace, "/receipts/0: ").await;
}
