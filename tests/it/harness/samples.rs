//! Request bodies of payments, and functions that take a payment to a state.

use super::process::SIGN;
use super::world::World;
use serde_json::{Value, json};

pub(crate) fn payment(idempotency_key: &str) -> Value {
    json!({
        "idempotency_key": idempotency_key,
        "key_ref": "treasury-1",
        "payment": {
            "from_account": "acct-operating-0001",
            "to_account": "acct-supplier-0042",
            "amount_minor": 12_500,
            "currency": "EUR",
            "reference": "invoice 17"
        },
        "requested_participants": [0, 1, 2],
        "threshold": 2,
        "publication_mode": "manual",
        "client": client()
    })
}

/// The client that [`payment`] names.
pub(crate) fn client() -> Value {
    json!({
        "client_id": "treasury-desk",
        "subject_id": "carol",
        "roles": ["operator"],
        "scopes": ["operations.sign"]
    })
}

pub(crate) fn approval(subject: &str) -> Value {
    json!({ "subject_id": subject, "roles": ["approver"], "approved_at_ms": 1_700_000_000_000_u64 })
}

pub(crate) fn rejection(subject: &str) -> Value {
    json!({
        "subject_id": subject, "roles": ["approver"], "reason": "not our supplier", "rejected_at_ms": 1_700_000_000_000_u64,
    })
}

pub(crate) fn publication() -> Value {
    json!({ "scope": "signature", "requested_at_ms": 1_700_000_000_000_u64 })
}

/// The body with the member at this JSON pointer set to `value`, or removed if `value` is null.
pub(crate) fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let members = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        members.remove(name);
    } else {
        members.insert(name.to_owned(), value);
    }
    body
}

/// The path of a payment's view, or of an action on it such as `/approve`.
pub(crate) fn path(operation: &Value, action: &str) -> String {
    format!("/v1/operations/{}{action}", operation["operation_id"].as_str().unwrap())
}

/// Submits a payment; returns the view.
pub(crate) async fn submit(world: &World, body: &Value) -> Value {
    world.post(SIGN, body).await.ok()["operation"].clone()
}

/// Submits a payment and approves it as Alice and as Bob; returns the last view.
pub(crate) async fn admit(world: &World, body: &Value) -> Value {
    let operation = submit(world, body).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &approval("alice")).await.ok();
    world.post(&approve, &approval("bob")).await.ok()
}

/// As [`admit`], and executes the payment.
pub(crate) async fn execute(world: &World, body: &Value) -> Value {
    let operation = admit(world, body).await;
    world.post_nothing(&path(&operation, "/execute")).await.ok()
}

/// As [`execute`], and publishes the signature.
pub(crate) async fn publish(world: &World, body: &Value) -> Value {
    let operation = execute(world, body).await;
    world.post(&path(&operation, "/publish"), &publication()).await.ok()
}
