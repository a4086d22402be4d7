//! Separation of duties and required roles, with signed approvals.

use super::key;
use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::modes::test_caller;
use crate::harness::samples::{path, payment, submit, with};
use crate::harness::world::World;
use serde_json::json;

const STRICT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");

#[tokio::test]
async fn submitters_own_signed_approval_does_not_count() {
    let signers = Signers::new();
    let overrides = [&signers.settings("required")[..], &[("separation_of_duties", "true")]].concat();
    let world = World::with(&overrides).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("own")).await;
    let own = world.post(&path(&operation, "/approve"), &signers.body(&operation, "carol")).await;
    let message = own.fails(403, "approver_not_permitted");
    assert!(message.contains("is_submitter true"), "{message}");
    let sign = with(custody::sign("own"), "/client/subject_id", json!("alice"));
    let sign = custody::submit(&world, &custody::key_path("treasury-1", "/sign"), &sign).await;
    let own = world.post(&custody::path(&sign, "/approve"), &signers.body(&sign, "alice")).await;
    own.fails(403, "approver_not_permitted");
    assert_eq!(world.get(&path(&operation, "")).await.ok()["approvals"]["approved"], 0);
}

#[tokio::test]
async fn two_subjects_of_one_person_are_one_human() {
    let signers = Signers::new();
    let overrides = [&signers.settings("required")[..], &[("separation_of_duties", "true")]].concat();
    let world = World::with(&overrides).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("twice")).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &signers.body(&operation, "alice")).await.ok();
    let again = world.post(&approve, &signers.body(&operation, "phone")).await.ok();
    assert_eq!((&again["state"], &again["approvals"]["approved"]), (&json!("pending_approval"), &json!(1)));
    let admitted = world.post(&approve, &signers.body(&operation, "bob")).await.ok();
    assert_eq!(admitted["state"], "admitted", "{admitted}");
    let own = with(payment("own phone"), "/client/subject_id", json!("phone"));
    let own = submit(&world, &own).await;
    let refused = world.post(&path(&own, "/approve"), &signers.body(&own, "alice")).await;
    let message = refused.fails(403, "approver_not_permitted");
    assert!(message.contains("is_submitter true"), "{message}");
    let awaiting = async |subject| {
        let caller = test_caller(subject, "operations.read").headers();
        world.call_as(&caller, "GET", "/v1/operations?awaiting=me", &json!(null)).await.ok()
    };
    assert_eq!(awaiting("alice").await["operations"], json!([]), "she submitted it as `phone`");
    assert_eq!(awaiting("bob").await["operations"][0]["operation_id"], own["operation_id"]);
}

#[tokio::test]
async fn caller_submits_only_its_own_signed_approval() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("self")).await;
    let identity = test_caller("alice", "operations.approve").headers();
    let approve = path(&operation, "/approve");
    let message = world
        .call_as(&identity, "POST", &approve, &signers.body(&operation, "bob"))
        .await
        .fails(403, "approver_not_permitted");
    assert!(message.contains("must be the caller's own"), "{message}");
    world.call_as(&identity, "POST", &approve, &signers.body(&operation, "alice")).await.ok();
}

/// For this amount the strict policy requires three approvers, one of them in the role `treasurer`.
#[tokio::test]
async fn required_role_must_be_in_the_signed_approval() {
    let signers = Signers::new();
    let overrides = [&signers.settings("required")[..], &[("policy_bundle", STRICT)]].concat();
    let world = World::with(&overrides).await;
    key(&world, &signers, "treasury-1").await;
    let body = with(payment("large"), "/payment/amount_minor", json!(1_500_000));
    let operation = submit(&world, &body).await;
    let approve = path(&operation, "/approve");
    let claimed = signers.body_as(&operation, "alice", &["treasurer"]);
    let message = world.post(&approve, &claimed).await.fails(403, "approver_not_permitted");
    assert!(message.contains("`role_not_held`"), "{message}");
    for subject in ["alice", "bob"] {
        let view = world.post(&approve, &signers.body(&operation, subject)).await.ok();
        assert_eq!(view["state"], "pending_approval");
    }
    let admitted = world.post(&approve, &signers.body_as(&operation, "tina", &["treasurer"])).await.ok();
    assert_eq!(admitted["state"], "admitted", "{admitted}");
}
