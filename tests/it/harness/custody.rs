//! Request bodies of custody operations, and the steps of their flow.

use super::samples::approval;
use super::world::World;
use serde_json::{Value, json};

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

fn more(mut body: Value, members: Value) -> Value {
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

pub(crate) fn reshare(target_epoch: &str) -> Value {
    more(refresh(target_epoch), json!({ "new_participants": [1, 2, 3, 4], "threshold": 3 }))
}

pub(crate) fn rotate(new_key_ref: &str) -> Value {
    let new = json!({ "new_key_ref": new_key_ref, "participants": [2, 3, 4], "threshold": 2 });
    more(refresh("r-1"), new)
}

pub(crate) fn recover(target_epoch: &str) -> Value {
    let recovery = json!({
        "recovery_case_ref": "case-9",
        "recovering_participant": 2,
        "helper_participants": [0, 1],
        "helper_share_cids": ["cid-0", "cid-1"],
        "expected_helper_admission_root": null
    });
    more(refresh(target_epoch), recovery)
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

pub(crate) fn on_key(key_ref: &str, action: &str) -> String {
    format!("/v1/custody/keys/{key_ref}{action}")
}

pub(crate) fn path(operation: &Value, action: &str) -> String {
    format!("/v1/custody/operations/{}{action}", operation["operation_id"].as_str().unwrap())
}

pub(crate) async fn submitted(world: &World, path: &str, body: &Value) -> Value {
    world.post(path, body).await.ok()["operation"].clone()
}

/// Submits and approves twice.
pub(crate) async fn admitted(world: &World, path: &str, body: &Value) -> Value {
    let operation = submitted(world, path, body).await;
    for subject in ["alice", "bob"] {
        world.post(&self::path(&operation, "/approve"), &approval(subject)).await.ok();
    }
    world.get(&self::path(&operation, "")).await.ok()
}

pub(crate) async fn executed(world: &World, path: &str, body: &Value) -> Value {
    let operation = admitted(world, path, body).await;
    world.post_nothing(&self::path(&operation, "/execute")).await.ok()
}

pub(crate) async fn published(world: &World, path: &str, body: &Value) -> Value {
    let operation = executed(world, path, body).await;
    let publication = json!({ "scope": "signature", "requested_at_ms": 1 });
    world.post(&self::path(&operation, "/publish"), &publication).await.ok()
}

/// Creates an active key.
pub(crate) async fn made(world: &World, key_ref: &str) -> Value {
    executed(world, "/v1/custody/keys", &key(key_ref)).await;
    world.get(&on_key(key_ref, "")).await.ok()
}
