//! Request bodies of custody operations, and functions that take an operation to a state.
//!
//! [`key`], [`sign`], [`refresh`], [`reshare`], [`rotate`], [`recover`] and [`export`] return bodies; they send nothing.

use super::samples::approval;
use super::world::World;
use serde_json::{Value, json};

/// The path of all keys; posting to it creates one.
pub(crate) const KEYS: &str = "/v1/custody/keys";

/// The client that the bodies below name.
pub(crate) fn client() -> Value {
    json!({ "client_id": "custody", "subject_id": "dora", "roles": ["operator"], "scopes": ["custody.*"] })
}

pub(crate) fn key(key_ref: &str) -> Value {
    json!({
        "key_ref": key_ref,
        "tenant_id": "default",
        "asset_id": "btc",
        "purpose": "cold",
        "threshold": 2,
        "participants": [0, 1, 2],
        "signature_profile": "frost-ed25519-sha512",
        "chains": ["bitcoin"],
        "client": client()
    })
}

pub(crate) fn sign(idempotency_key: &str) -> Value {
    json!({
        "idempotency_key": idempotency_key,
        "asset_id": "btc",
        "action": "transfer",
        "chain_id": "bitcoin",
        "request_digest": "5a".repeat(32),
        "typed_data_root": "6b".repeat(32),
        "requested_participants": [0, 1, 2],
        "publication_mode": "manual",
        "client": client(),
        "public_fields": { "memo": "vault move" }
    })
}

pub(crate) fn refresh(target_epoch: &str) -> Value {
    json!({
        "idempotency_key": format!("to-{target_epoch}"),
        "target_epoch": target_epoch,
        "reason": "drill",
        "publication_mode": "manual",
        "client": client(),
        "metadata": { "ticket": "77" }
    })
}

fn with_members(mut body: Value, members: Value) -> Value {
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

pub(crate) fn reshare(target_epoch: &str) -> Value {
    with_members(refresh(target_epoch), json!({ "new_participants": [1, 2, 3, 4], "threshold": 3 }))
}

pub(crate) fn rotate(new_key_ref: &str) -> Value {
    let new = json!({ "new_key_ref": new_key_ref, "participants": [2, 3, 4], "threshold": 2 });
    with_members(refresh("r-1"), new)
}

pub(crate) fn recover(target_epoch: &str) -> Value {
    let recovery = json!({
        "recovery_case_ref": "case-9",
        "recovering_participant": 2,
        "helper_participants": [0, 1],
        "helper_share_cids": ["cid-0", "cid-1"],
        "expected_helper_admission_root": null
    });
    with_members(refresh(target_epoch), recovery)
}

pub(crate) fn export(receipt: &Value, state: &str) -> Value {
    json!({
        "publication_receipt": receipt,
        "rail": "swift",
        "export_ref": "7c".repeat(32),
        "state": state,
        "external_id": "external-98765",
        "exported_at_ms": 1_700_000_000_000_u64
    })
}

/// An abort by this approver, without these receivers.
pub(crate) fn abort(subject: &str, lost: &[u16]) -> Value {
    json!({
        "subject_id": subject, "roles": ["approver"], "reason": "its disk is lost", "lost_participants": lost,
        "aborted_at_ms": 1_700_000_000_000_u64,
    })
}

/// The path of a key's view, or of an action on it such as `/sign`.
pub(crate) fn key_path(key_ref: &str, action: &str) -> String {
    format!("/v1/custody/keys/{key_ref}{action}")
}

/// The path of an operation's view, or of an action on it such as `/approve`.
pub(crate) fn path(operation: &Value, action: &str) -> String {
    format!("/v1/custody/operations/{}{action}", operation["operation_id"].as_str().unwrap())
}

/// Posts a body to a path; returns the view of the new operation.
pub(crate) async fn submit(world: &World, path: &str, body: &Value) -> Value {
    world.post(path, body).await.ok()["operation"].clone()
}

/// Submits an operation and approves it as Alice and as Bob; returns its view.
pub(crate) async fn admit(world: &World, path: &str, body: &Value) -> Value {
    let operation = submit(world, path, body).await;
    for subject in ["alice", "bob"] {
        world.post(&self::path(&operation, "/approve"), &approval(subject)).await.ok();
    }
    world.get(&self::path(&operation, "")).await.ok()
}

/// As [`admit`], and executes the operation.
pub(crate) async fn execute(world: &World, path: &str, body: &Value) -> Value {
    let operation = admit(world, path, body).await;
    world.post_nothing(&self::path(&operation, "/execute")).await.ok()
}

/// As [`execute`], and publishes the result.
pub(crate) async fn publish(world: &World, path: &str, body: &Value) -> Value {
    let operation = execute(world, path, body).await;
    world.post(&self::path(&operation, "/publish"), &publication()).await.ok()
}

pub(crate) fn publication() -> Value {
    json!({ "scope": "signature", "requested_at_ms": 1 })
}

/// Creates an active key; returns its view.
pub(crate) async fn create_key(world: &World, key_ref: &str) -> Value {
    execute(world, KEYS, &key(key_ref)).await;
    world.get(&key_path(key_ref, "")).await.ok()
}
