//! A gateway that verifies no signatures, with the real authority and nodes that do verify: it gets no signature from them.

use super::key;
use crate::harness::approvers::Signers;
use crate::harness::faulty::Faults;
use crate::harness::samples::{approval, path, payment, submitted, with};
use crate::harness::world::World;
use serde_json::{Value, json};
use std::sync::Arc;

/// The nodes require signed approvals, the gateway does not.
async fn compromised(signers: &Signers) -> World {
    World::with_node_settings(Arc::default(), &[], &signers.given("required")).await
}

#[tokio::test]
async fn nodes_refuse_approvals_invented_by_the_gateway() {
    let signers = Signers::new();
    let world =
        World::with_node_settings(Arc::default(), &signers.given("optional"), &signers.given("required"))
            .await;
    key(&world, &signers, "treasury-1").await;
    let operation = submitted(&world, &payment("invented")).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &signers.body(&operation, "alice")).await.ok();
    // An approval that the gateway invents for Bob.
    let message = world.post(&approve, &approval("bob")).await.fails(409, "operation_failed");
    assert!(message.contains("refuses: approval of `bob`: `not_signed`"), "{message}");
    let view = world.get(&path(&operation, "")).await.ok();
    assert_eq!(
        (&view["state"], &view["intent"]["failure"]["code"], &view["result"]),
        (&json!("failed"), &json!("approval_refused"), &json!({}))
    );
    world.post_nothing(&path(&operation, "/execute")).await.fails(409, "operation_failed");
}

/// In development a key is made on first use without approvals; nodes that require signed approvals refuse it.
#[tokio::test]
async fn nodes_refuse_to_make_an_unapproved_key() {
    let signers = Signers::new();
    for world in [compromised(&signers).await, World::with(&signers.given("required")).await] {
        let answer =
            world.post("/v1/operations/sign", &with(payment("first"), "/key_ref", Value::Null)).await;
        let message = answer.fails(503, "runtime_unavailable");
        assert!(
            message.contains("the key of this operation could not be created") && message.contains("0 of 2"),
            "{message}"
        );
    }
    let faults: Arc<Faults> = Arc::default();
    let world = World::with_node_settings(faults, &[], &[]).await;
    submitted(&world, &with(payment("first"), "/key_ref", Value::Null)).await;
}
