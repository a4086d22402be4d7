//! Signed receipts of nodes: an attacker without a node's key cannot claim a step that the node did not perform.

use super::super::not_checked;
use super::{Alter, Forgery, assert_holds};
use crate::harness::custody;
use crate::harness::faulty::Faults;
use crate::harness::samples::{admitted, approval, path, payment, submitted, with};
use crate::harness::world::World;
use gateway_evidence::Verdict;
use gateway_evidence::verify::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn receipts(event: &mut Value) -> &mut Vec<Value> {
    event["change"]["receipts"].as_array_mut().unwrap()
}

fn one_signer_less(event: &mut Value) {
    let signers = event["change"]["signature"]["signers"].as_array_mut().unwrap();
    signers.pop();
}

#[tokio::test]
async fn executed_event_requires_a_receipt_of_each_signer() {
    let forgery = Forgery::of_payment("/threshold", json!(3)).await;
    let at = forgery.at("executed", "/receipts: are not from exactly the signers");
    let alterations: [Alter; 4] = [
        |event| drop(receipts(event).pop()),
        |event| receipts(event).clear(),
        |event| receipts(event)[1] = receipts(event)[0].clone(),
        |event| {
            let first = receipts(event)[0].clone();
            receipts(event).push(first);
        },
    ];
    for alter in alterations {
        let written = forgery.forger.event("executed", alter).await;
        forgery.assert_finds_only(&written, &at);
    }
    let written = forgery.forger.event("executed", one_signer_less).await;
    forgery.assert_finds(&written, &at);
}

/// Before publication the signature is hidden, but its signers are on record.
#[tokio::test]
async fn unpublished_signature_requires_a_receipt_of_each_signer() {
    let forgery = Forgery::of_payment("/threshold", json!(3)).await;
    let at = forgery.at("executed", "/receipts: are not from exactly the signers");
    let executed = forgery.forger.place("executed");
    let alter = |events: &mut Vec<Value>| {
        events.truncate(executed + 1);
        receipts(&mut events[executed]).pop();
    };
    forgery.assert_finds_only(&forgery.forger.events(alter).await, &at);
}

#[tokio::test]
async fn signing_step_requires_receipts_of_enough_nodes() {
    let forgery = Forgery::of_payment("/threshold", json!(3)).await;
    for kind in ["admission_applied", "receipt_materialized", "published"] {
        for n_left in [0, 2] {
            let written = forgery.forger.event(kind, |event| receipts(event).truncate(n_left)).await;
            forgery.assert_finds_only(&written, &forgery.at(kind, "/receipts: are not from enough"));
        }
        let again = |event: &mut Value| {
            let first = receipts(event)[0].clone();
            receipts(event).push(first);
        };
        let written = forgery.forger.event(kind, again).await;
        forgery.assert_finds_only(&written, &forgery.at(kind, "/receipts: are not from enough"));
    }
}

#[tokio::test]
async fn resharing_step_requires_receipts_of_all_share_holders() {
    for forgery in Forgery::of_creation_and_refresh().await {
        for kind in ["admission_applied", "receipt_materialized", "epoch_decided", "published"] {
            for n_left in [0, 2] {
                let written = forgery.forger.event(kind, |event| receipts(event).truncate(n_left)).await;
                let at = forgery.at(kind, "/receipts: are not from enough");
                forgery.assert_finds_only(&written, &at);
            }
        }
        let written = forgery.forger.event("epoch_acked", |event| receipts(event).truncate(2)).await;
        forgery.assert_finds_only(&written, &forgery.at("executed", "/receipts: not all nodes"));
    }
}

#[tokio::test]
async fn node_without_a_share_need_not_sign_the_publication() {
    let body = custody::reshare("2");
    let forgery = Forgery::of_change(
        "/reshare",
        with(with(body, "/new_participants", json!([3, 4])), "/threshold", json!(2)),
    )
    .await;
    let is_of = |receipt: &Value, nodes: &[u64]| nodes.contains(&receipt["participant"].as_u64().unwrap());
    let left_by = async |nodes: &[u64]| {
        let alter = |event: &mut Value| receipts(event).retain(|receipt| is_of(receipt, nodes));
        forgery.found(&forgery.forger.event("published", alter).await)
    };
    assert_eq!(left_by(&[3, 4]).await, [""; 0]);
    assert_eq!(left_by(&[0, 1, 2, 3]).await.len(), 1);
}

#[tokio::test]
async fn failed_key_creation_needs_discard_receipts() {
    let faults: Arc<Faults> = Arc::default();
    let world = World::with_faults(faults.clone(), &[]).await;
    faults.refusing.store(true, Ordering::SeqCst);
    let create = custody::admitted(&world, "/v1/custody/keys", &custody::key("cold")).await;
    world.post_nothing(&custody::path(&create, "/execute")).await.fails(409, "operation_failed");
    let forgery = Forgery::of(&world, &custody::path(&create, "/evidence")).await;
    assert_eq!(forgery.found(&forgery.evidence), [""; 0]);
    for n_left in [0, 2] {
        let alter = |event: &mut Value| {
            let receipts = event["change"]["receipts"].as_array().unwrap();
            event["change"]["receipts"] = receipts.iter().take(n_left).cloned().collect();
        };
        let written = forgery.forger.event("failed", alter).await;
        forgery.assert_finds_only(&written, &forgery.at("failed", "/receipts: are not from enough"));
    }
}

async fn refused_signature() -> Forgery {
    let faults: Arc<Faults> = Arc::default();
    let world = World::with_faults(faults.clone(), &[]).await;
    let operation = admitted(&world, &payment("refused")).await;
    faults.refusing.store(true, Ordering::SeqCst);
    world.post_nothing(&path(&operation, "/execute")).await.fails(409, "operation_failed");
    Forgery::of(&world, &path(&operation, "/evidence")).await
}

/// Without the receipts, a gateway could report a failure and keep the signature.
#[tokio::test]
async fn failed_signing_operation_needs_discard_receipts() {
    let forgery = refused_signature().await;
    assert_eq!(forgery.evidence["state"], "failed");
    let steps: Vec<_> =
        forgery.evidence["receipts"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, ["admission", "policy-receipt", "discard"]);
    let report = forgery.verified(&forgery.evidence);
    assert_holds(&report, &["receipts", "signature"]);
    let none = report.checks.iter().find(|check| check.name == "signature").unwrap();
    assert_eq!(
        none.status,
        Status::Holds("none: 3 of 3 nodes discarded the operation, and a signature needs 2".to_owned())
    );
    let left_by = async |n_left| {
        let written = forgery.forger.event("failed", |event| receipts(event).truncate(n_left)).await;
        forgery.found(&written)
    };
    assert_eq!(left_by(2).await, [""; 0], "one node alone cannot sign");
    for n_left in [0, 1] {
        let alter = |event: &mut Value| {
            let receipts = event["change"]["receipts"].as_array().unwrap();
            event["change"]["receipts"] = receipts.iter().take(n_left).cloned().collect();
        };
        let written = forgery.forger.event("failed", alter).await;
        forgery.assert_finds_only(&written, &forgery.at("failed", "/receipts: are not from enough"));
    }
    // A receipt is valid for its own step only.
    let admitted = receipts(&mut forgery.forger.first("admission_applied")).clone();
    let written = forgery.forger.event("failed", |event| *receipts(event) = admitted).await;
    forgery.assert_finds(&written, &forgery.at("failed", "/receipts/0: "));
}

/// The attacker has the log's key, and ends the history of a signed payment with `failed`.
#[tokio::test]
async fn failure_without_discard_receipts_is_not_verified() {
    let failed = refused_signature().await.forger.first("failed");
    let failed = |settles: Value, receipts: &Value| {
        let mut failed = failed.clone();
        failed["settles"] = settles;
        failed["change"]["receipts"] = receipts.clone();
        failed
    };
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let at_ms = forgery.forger.first("published")["at_ms"].clone();
    for last in ["decision_signed", "admission_applied", "ceremony_started"] {
        let cut = forgery.forger.place(last) + 1;
        let mut event = failed(Value::Null, &json!([]));
        event["at_ms"] = at_ms.clone();
        let alter = |events: &mut Vec<Value>| {
            events.truncate(cut);
            events.push(event);
        };
        let report = forgery.verified(&forgery.forger.events(alter).await);
        assert_eq!(report.verdict(), Verdict::NotChecked, "{last}: {report:?}");
        let why = not_checked(&report);
        let is_reported =
            |(name, why): &(&str, &str)| *name == "signature" && why.contains("claimed by the gateway alone");
        assert!(why.iter().any(is_reported), "{last}: {why:?}");
    }
    // An executed operation cannot fail.
    let cut = forgery.forger.place("executed") + 1;
    let event = failed(Value::Null, &json!([]));
    let alter = |events: &mut Vec<Value>| {
        events.truncate(cut);
        events.push(event);
    };
    let written = forgery.forger.events(alter).await;
    forgery.assert_finds(&written, &format!("/events/{cut}/event/change/type: cannot happen"));
}

#[tokio::test]
async fn operation_expired_before_a_decision_needs_no_receipts() {
    let world = World::with_faults(Arc::default(), &[("approval_ttl_ms", "1")]).await;
    let operation = submitted(&world, &payment("expired")).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.fails(409, "operation_failed");
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    assert_eq!(forgery.evidence["state"], "failed");
    assert_eq!(forgery.found(&forgery.evidence), [""; 0]);
    let report = forgery.verified(&forgery.evidence);
    let why = not_checked(&report);
    assert!(
        why.iter().any(|(name, why)| *name == "signature" && why.contains("before a decision")),
        "{why:?}"
    );
}

/// Otherwise evidence without any receipts would have nothing to check.
#[tokio::test]
async fn key_creation_without_receipts_is_found() {
    let forgery = Forgery::of_creation().await;
    let alter = |events: &mut Vec<Value>| {
        for event in events {
            event["change"].as_object_mut().unwrap().entry("receipts").and_modify(|given| *given = json!([]));
        }
    };
    let written = forgery.forger.events(alter).await;
    forgery.assert_finds(&written, &forgery.at("epoch_decided", "/receipts: "));
}

#[tokio::test]
async fn receipt_of_another_node_or_step_or_signature_is_found() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let at = forgery.at("published", "/receipts/0: ");
    let alterations: [Alter; 3] = [
        |receipt| receipt["node_signature"] = json!("11".repeat(64)),
        |receipt| receipt["transition_hash"] = json!("11".repeat(32)),
        |receipt| receipt["participant"] = json!(9),
    ];
    for alter in alterations {
        let written = forgery.forger.event("published", |event| alter(&mut receipts(event)[0])).await;
        forgery.assert_finds(&written, &at);
    }
    let applied = receipts(&mut forgery.forger.first("admission_applied")).clone();
    let written = forgery.forger.event("published", |event| *receipts(event) = applied).await;
    forgery.assert_finds(&written, &at);
}
