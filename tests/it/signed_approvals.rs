//! Signed approvals: the registry, requests, the `approver` commands, and evidence.

mod command;
mod compromised;
mod duties;
mod evidence;
mod rejections;
mod reload;
mod requests;
mod start;

use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::samples::{path, payment, submit};
use crate::harness::world::World;
use serde_json::{Value, json};

/// Creates a key, approved by Alice and Bob.
async fn key(world: &World, signers: &Signers, key_ref: &str) -> Value {
    let create = custody::submit(world, "/v1/custody/keys", &custody::key(key_ref)).await;
    approved(world, signers, &create, &custody::path(&create, "/approve")).await;
    world.post_nothing(&custody::path(&create, "/execute")).await.ok();
    world.get(&custody::key_path(key_ref, "")).await.ok()
}

/// Alice approves with her key, Bob with his authenticator. The answer to Bob.
async fn approved(world: &World, signers: &Signers, view: &Value, approve: &str) -> Value {
    world.post(approve, &signers.body(view, "alice")).await.ok();
    world.post(approve, &signers.body(view, "bob")).await.ok()
}

/// Creates the key `treasury-1`, and publishes a payment signed with it.
async fn published(world: &World, signers: &Signers) -> Value {
    key(world, signers, "treasury-1").await;
    let operation = submit(world, &payment("signed")).await;
    let admitted = approved(world, signers, &operation, &path(&operation, "/approve")).await;
    assert_eq!(admitted["state"], "admitted", "{admitted}");
    world.post_nothing(&path(&operation, "/execute")).await.ok();
    let publication = json!({ "scope": "signature", "requested_at_ms": 1 });
    world.post(&path(&operation, "/publish"), &publication).await.ok()
}
