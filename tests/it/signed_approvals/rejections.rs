//! Rejections and aborts that approvers sign.

use super::evidence::{statuses, verify};
use super::{approved, key};
use crate::harness::approvers::{Signers, approval_now, sign_statement};
use crate::harness::custody;
use crate::harness::samples::{path, payment, submit, with};
use crate::harness::world::World;
use gateway_domain::approval::Word;
use gateway_evidence::Finding;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::verify::Status;
use serde_json::{Value, json};

/// Bob's rejection of this operation, for this reason, signed with his authenticator.
fn rejection(signers: &Signers, view: &Value, reason: &str) -> Value {
    let rejected_at_ms = approval_now("bob").claimed_at_ms;
    let roles = ["approver".to_owned()];
    let signature = sign_statement(view, |subject| {
        let statement = subject.says("bob", &roles, Word::Rejects { reason, rejected_at_ms });
        signers.device.assertion(statement.digest().unwrap())
    });
    json!({"subject_id": "bob", "roles": roles, "reason": reason, "rejected_at_ms": rejected_at_ms, "signature": signature})
}

#[tokio::test]
async fn rejection_is_signed_where_approvals_are() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("rejected")).await;
    let reject = path(&operation, "/reject");
    let sound = rejection(&signers, &operation, "wrong account");
    let other = submit(&world, &payment("other")).await;
    let approval = signers.body(&operation, "bob");
    for (wrong, reason) in [
        (with(sound.clone(), "/signature", Value::Null), "not_signed"),
        (with(sound.clone(), "/reason", json!("another reason")), "wrong_challenge"),
        (with(sound.clone(), "/signature", approval["signature"].clone()), "wrong_challenge"),
        (rejection(&signers, &other, "wrong account"), "wrong_challenge"),
        (with(sound.clone(), "/subject_id", json!("alice")), "unknown_key"),
        (with(sound.clone(), "/rejected_at_ms", json!(1)), "wrong_challenge"),
    ] {
        let message = world.post(&reject, &wrong).await.fails(403, "approver_not_permitted");
        assert!(message.contains(reason), "{reason}: {message}");
    }
    // The signature of a rejection approves nothing.
    let approves = json!({
        "subject_id": "bob", "roles": ["approver"], "approved_at_ms": sound["rejected_at_ms"], "signature": sound["signature"],
    });
    let message =
        world.post(&path(&operation, "/approve"), &approves).await.fails(403, "approver_not_permitted");
    assert!(message.contains("wrong_challenge"), "{message}");
    let pending = world.get(&path(&operation, "")).await.ok();
    assert_eq!(pending["revision"], operation["revision"], "nothing was stored");

    let rejected = world.post(&reject, &sound).await.ok();
    assert_eq!((&rejected["state"], &rejected["failure"]["code"]), (&json!("failed"), &json!("rejected")));
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let roots = world.roots().await;
    let report = verify(&evidence, roots.clone());
    assert_eq!(report.findings().collect::<Vec<_>>(), Vec::<&Finding>::new());
    assert_eq!(statuses(&report), [&Status::Holds("1 of 1 by their approvers".into())]);
    // Bob's authenticator is not in this registry.
    let mut approvers = json!(roots.approvers);
    approvers["approvers"][1]["keys"].as_array_mut().unwrap().pop();
    let roots = RootsFile { approvers: Some(serde_json::from_value(approvers).unwrap()), ..roots };
    let found: Vec<_> = verify(&evidence, roots).findings().map(ToString::to_string).collect();
    assert!(found.len() == 1 && found[0].contains("rejection of `bob`: `unknown_key`"), "{found:?}");
}

#[tokio::test]
async fn abort_is_signed_where_approvals_are() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    key(&world, &signers, "cold").await;
    let change =
        custody::submit(&world, &custody::key_path("cold", "/refresh"), &custody::refresh("2")).await;
    let admitted = approved(&world, &signers, &change, &custody::path(&change, "/approve")).await;
    assert_eq!(admitted["state"], "admitted", "{admitted}");
    let at = custody::path(&admitted, "/abort");
    let sound = signers.abort(&admitted, &[]);
    let rejected = rejection(&signers, &admitted, "its disk is lost");
    let unlisted = json!({ "subject_id": "mallory", "roles": ["approver"], "reason": "r", "aborted_at_ms": sound["aborted_at_ms"] });
    for (wrong, reason) in [
        (with(sound.clone(), "/signature", Value::Null), "not_signed"),
        (unlisted.clone(), "not_signed"),
        (with(unlisted, "/signature", sound["signature"].clone()), "unknown_approver"),
        (with(sound.clone(), "/roles", json!([])), "no_role"),
        (with(sound.clone(), "/roles", json!(["treasurer"])), "role_not_held"),
        (with(sound.clone(), "/reason", json!("another reason")), "wrong_challenge"),
        (with(sound.clone(), "/lost_participants", json!([2])), "wrong_challenge"),
        (with(sound.clone(), "/signature", rejected["signature"].clone()), "wrong_challenge"),
        (with(sound.clone(), "/subject_id", json!("alice")), "unknown_key"),
        (with(sound.clone(), "/aborted_at_ms", json!(1)), "wrong_challenge"),
    ] {
        let message = world.post(&at, &wrong).await.fails(403, "approver_not_permitted");
        assert!(message.contains(reason), "{reason}: {message}");
    }
    assert_eq!(world.get(&custody::path(&admitted, "")).await.ok(), admitted, "nothing was stored");

    let aborted = world.post(&at, &sound).await.ok();
    assert_eq!((&aborted["state"], &aborted["failure"]["code"]), (&json!("failed"), &json!("aborted")));
    let evidence = world.get(&custody::path(&admitted, "/evidence")).await.ok();
    let roots = world.roots().await;
    let report = verify(&evidence, roots.clone());
    assert_eq!(report.findings().collect::<Vec<_>>(), Vec::<&Finding>::new());
    assert_eq!(statuses(&report), [&Status::Holds("3 of 3 by their approvers".into())]);
    // Bob's authenticator is not in this registry: neither his approval nor his abort counts.
    let mut approvers = json!(roots.approvers);
    approvers["approvers"][1]["keys"].as_array_mut().unwrap().pop();
    let roots = RootsFile { approvers: Some(serde_json::from_value(approvers).unwrap()), ..roots };
    let found: Vec<_> = verify(&evidence, roots).findings().map(ToString::to_string).collect();
    assert!(found.len() == 2 && found[1].contains("rejection of `bob`: `unknown_key`"), "{found:?}");
}
