//! Bodies of requests, as a client sends them: of payments, of custody operations, and of what follows on both.

use serde_json::{Value, json};

/// The submission of a payment by the client [`treasury_desk`].
pub fn payment(idempotency_key: &str) -> Value {
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
        "client": treasury_desk()
    })
}

/// The client that [`payment`] names.
pub fn treasury_desk() -> Value {
    json!({
        "client_id": "treasury-desk",
        "subject_id": "carol",
        "roles": ["operator"],
        "scopes": ["operations.sign"]
    })
}

/// The approval of a person in the role `approver`.
pub fn approval(subject: &str) -> Value {
    json!({ "subject_id": subject, "roles": ["approver"], "approved_at_ms": 1_700_000_000_000_u64 })
}

/// The rejection of a person in the role `approver`.
pub fn rejection(subject: &str) -> Value {
    json!({
        "subject_id": subject, "roles": ["approver"], "reason": "not our supplier", "rejected_at_ms": 1_700_000_000_000_u64,
    })
}

/// A publication of the signature.
pub fn publication() -> Value {
    json!({ "scope": "signature", "requested_at_ms": 1_700_000_000_000_u64 })
}

/// The body with the member at this JSON pointer set to `value`, or removed if `value` is null.
pub fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let members = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        members.remove(name);
    } else {
        members.insert(name.to_owned(), value);
    }
    body
}

/// The body with these members set.
pub fn altered(mut body: Value, members: Value) -> Value {
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

/// The client that submits operations on keys.
pub fn custody_desk() -> Value {
    json!({ "client_id": "custody", "subject_id": "dora", "roles": ["operator"], "scopes": ["custody.*"] })
}

/// The creation of a key.
pub fn key(key_ref: &str) -> Value {
    json!({
        "key_ref": key_ref,
        "tenant_id": "default",
        "asset_id": "btc",
        "purpose": "cold",
        "threshold": 2,
        "participants": [0, 1, 2],
        "signature_profile": "frost-ed25519-sha512",
        "chains": ["bitcoin"],
        "client": custody_desk()
    })
}

/// A signature with a key.
pub fn sign(idempotency_key: &str) -> Value {
    json!({
        "idempotency_key": idempotency_key,
        "asset_id": "btc",
        "action": "transfer",
        "chain_id": "bitcoin",
        "request_digest": "5a".repeat(32),
        "typed_data_root": "6b".repeat(32),
        "requested_participants": [0, 1, 2],
        "publication_mode": "manual",
        "client": custody_desk(),
        "public_fields": { "memo": "vault move" }
    })
}

/// New shares for the same participants, in this epoch.
pub fn refresh(target_epoch: &str) -> Value {
    json!({
        "idempotency_key": format!("to-{target_epoch}"),
        "target_epoch": target_epoch,
        "reason": "drill",
        "publication_mode": "manual",
        "client": custody_desk(),
        "metadata": { "ticket": "77" }
    })
}

/// New shares for participants 1 to 4.
pub fn reshare(target_epoch: &str) -> Value {
    altered(refresh(target_epoch), json!({ "new_participants": [1, 2, 3, 4], "threshold": 3 }))
}

/// A new key that replaces the present one.
pub fn rotate(new_key_ref: &str) -> Value {
    let new = json!({ "new_key_ref": new_key_ref, "participants": [2, 3, 4], "threshold": 2 });
    altered(refresh("r-1"), new)
}

/// The recovery of the share of participant 2.
pub fn recover(target_epoch: &str) -> Value {
    let recovery = json!({
        "recovery_case_ref": "case-9",
        "recovering_participant": 2,
        "helper_participants": [0, 1],
        "helper_share_cids": ["cid-0", "cid-1"],
        "expected_helper_admission_root": null
    });
    altered(refresh(target_epoch), recovery)
}

/// The state of an export to another system, of the operation with this receipt.
pub fn export(receipt: &Value, state: &str) -> Value {
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
pub fn abort(subject: &str, lost: &[u16]) -> Value {
    json!({
        "subject_id": subject, "roles": ["approver"], "reason": "its disk is lost", "lost_participants": lost,
        "aborted_at_ms": 1_700_000_000_000_u64,
    })
}
