use super::{UNKNOWN, assert_named};
use crate::harness::samples::{admitted, approval, client, path, payment, submitted, with};
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn bad_approval_is_refused_by_name_and_changes_nothing() {
    let world = World::start().await;
    let operation = submitted(&world, &payment("approve")).await;
    let approve = path(&operation, "/approve");
    let cases = [
        ("/subject_id", Value::Null, "`/subject_id` is required"),
        ("/subject_id", json!(""), "`/subject_id` must not be empty"),
        ("/roles", Value::Null, "`/roles` is required"),
        ("/roles", json!({}), "`/roles` must be an array"),
        ("/approved_at_ms", json!("now"), "`/approved_at_ms` must be an integer from"),
    ];
    assert_named(&world, &approve, &approval("alice"), &cases).await;
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
    world
        .post(&format!("/v1/operations/{UNKNOWN}/approve"), &approval("a"))
        .await
        .fails(404, "operation_not_found");
}

#[tokio::test]
async fn repeated_approval_of_one_subject_counts_once() {
    let world = World::start().await;
    let operation = submitted(&world, &payment("twice")).await;
    let first = world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let again = world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    assert_eq!(first, again);
    assert_eq!(again["approvals"], json!({ "approved": 1, "required": 2, "subjects": ["alice"] }));
}

#[tokio::test]
async fn approval_after_the_quorum_only_adds_evidence() {
    let world = World::start().await;
    let operation = admitted(&world, &payment("late")).await;
    let late = world.post(&path(&operation, "/approve"), &approval("dave")).await.ok();
    assert_eq!((&late["state"], &late["approvals"]), (&operation["state"], &operation["approvals"]));
    assert_ne!(late["runtime"]["record_root"], operation["runtime"]["record_root"]);
}

#[tokio::test]
async fn submitters_own_approval_is_refused_under_separation_of_duties() {
    let world = World::with(&[("separation_of_duties", "true")]).await;
    let operation = submitted(&world, &payment("own")).await;
    let own = world.post(&path(&operation, "/approve"), &approval("carol")).await;
    own.fails(403, "approver_not_permitted");
    assert_eq!(world.get(&path(&operation, "")).await.ok()["approvals"]["approved"], 0);
}

#[tokio::test]
async fn identified_caller_approves_only_as_itself() {
    let world = World::start().await;
    let operation = submitted(&world, &payment("self")).await;
    let alice = [
        ("x-client-id", "desk"),
        ("x-subject-id", "alice"),
        ("x-roles", "approver"),
        ("x-scopes", "operations.approve"),
    ];
    let approve = path(&operation, "/approve");
    world.call_as(&alice, "POST", &approve, &approval("bob")).await.fails(403, "approver_not_permitted");
    let forged = with(approval("alice"), "/client", client());
    world.call_as(&alice, "POST", &approve, &forged).await.fails(403, "client_binding_mismatch");
    let promoted = with(approval("alice"), "/roles", json!(["cfo"]));
    world.call_as(&alice, "POST", &approve, &promoted).await.fails(403, "approver_not_permitted");
    world.call_as(&alice, "POST", &approve, &approval("alice")).await.ok();
}

#[tokio::test]
async fn approval_after_the_deadline_fails_the_operation() {
    let world = World::with(&[("approval_ttl_ms", "1")]).await;
    let operation = submitted(&world, &payment("expired")).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let message =
        world.post(&path(&operation, "/approve"), &approval("alice")).await.fails(409, "operation_failed");
    assert!(message.contains("no quorum within 1 ms"), "{message}");
    let now = world.get(&path(&operation, "")).await.ok();
    assert_eq!(
        (&now["state"], &now["intent"]["failure"]["code"]),
        (&json!("failed"), &json!("approval_expired"))
    );
}
