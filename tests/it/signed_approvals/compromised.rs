//! A compromised gateway, which does not verify approvals, gets no signature from nodes that do.

use super::key;
use crate::harness::approvers::Signers;
use crate::harness::samples::{approval, path, payment, submit, with};
use crate::harness::world::World;
use serde_json::{Value, json};

/// The nodes require signed approvals, and the gateway does not.
async fn compromised_world(signers: &Signers) -> World {
    World::ticking_with_node_settings(&[], &signers.settings("required")).await
}

#[tokio::test]
async fn nodes_refuse_approvals_invented_by_the_gateway() {
    let signers = Signers::new();
    let world =
        World::ticking_with_node_settings(&signers.settings("optional"), &signers.settings("required")).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("invented")).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &signers.body(&operation, "alice")).await.ok();
    // The gateway accepts an unsigned approval, as if it had invented it.
    let message = world.post(&approve, &approval("bob")).await.fails(409, "operation_failed");
    assert!(message.contains("refuses: approval of `bob`: `not_signed`"), "{message}");
    let view = world.get(&path(&operation, "")).await.ok();
    assert_eq!(
        (&view["state"], &view["failure"]["code"], &view["result"]),
        (&json!("failed"), &json!("approval_refused"), &json!({}))
    );
    world.post_nothing(&path(&operation, "/execute")).await.fails(409, "operation_failed");
}

/// In development, a key is created on first use without approvals; nodes that require signed approvals refuse to.
#[tokio::test]
async fn nodes_refuse_to_create_an_unapproved_key() {
    let world = compromised_world(&Signers::new()).await;
    let first = with(payment("first"), "/key_ref", Value::Null);
    let message = world.post("/v1/operations/sign", &first).await.fails(503, "runtime_unavailable");
    let why = "the key of this operation could not be created";
    assert!(message.contains(why) && message.contains("0 of 2"), "{message}");
    let world = World::ticking().await;
    submit(&world, &with(payment("first"), "/key_ref", Value::Null)).await;
}
