//! One example body of every kind. In the development profile they run as one flow: a payment is submitted, approved twice,
//! executed and published; a key is created and then goes through every operation on keys.

use serde_json::{Map, Value, json};

/// A valid body of this shape, as JSON, with the members of all its examples.
#[must_use]
pub(crate) fn example_of<T: utoipa::ToSchema>() -> Vec<u8> {
    let examples = for_shape(&T::name());
    let values = examples.as_object().into_iter().flatten().filter_map(|(_, example)| example.get("value"));
    let members = values.filter_map(Value::as_object).flatten();
    let all: Map<String, Value> = members.map(|(name, value)| (name.clone(), value.clone())).collect();
    Value::Object(all).to_string().into_bytes()
}

/// The examples of a request shape, by name.
pub(super) fn for_shape(shape: &str) -> Value {
    match shape {
        "SignOperationRequest" => json!({ "payment": { "value": payment() } }),
        "ApproveOperationRequest" => json!({
            "first": { "value": approval("alice") },
            "second": { "value": approval("bob") },
        }),
        "ExecuteOperationRequest" => json!({ "plain": { "value": { "requested_at_ms": INSTANT_MS } } }),
        "PublishOperationRequest" | "CustodyPublishRequest" => json!({
            "signature": { "value": { "scope": "signature", "requested_at_ms": INSTANT_MS } },
        }),
        "NodeRecoveryRequest" => json!({
            "effect": { "value": { "effect_id": "an effect that the evidence names", "result_root": "0".repeat(64) } },
        }),
        "PolicyPreviewRequest" => json!({
            "before_quorum": { "value": { "intent": payment() } },
            "of_custody": { "value": { "custody": { "key_create": key() }, "what_if": { "time.now_ms": "1790000000000" } } },
            "at_quorum": { "value": { "intent": payment(), "approvals": [approval("alice"), approval("bob")] } },
        }),
        "CustodyKeyCreateRequest" => json!({ "two_of_three": { "value": key() } }),
        "CustodySignRequest" => json!({ "transfer": { "value": asset_action() } }),
        "CustodyKeyRefreshRequest" => json!({ "drill": { "value": change("2", json!({})) } }),
        "CustodyKeyReshareRequest" => json!({
            "three_of_four": { "value": change("4", json!({ "new_participants": [0, 1, 2, 3], "threshold": 3 })) },
        }),
        "CustodyKeyRecoverRequest" => json!({ "lost_share": { "value": change("3", recovery()) } }),
        "RecoveryContributionsRequest" => json!({ "lost_share": { "value": {
            "recovery_case_ref": "case-9", "recovering_participant": 2, "helper_participants": [0, 1],
        } } }),
        "CustodyKeyRotateRequest" => json!({
            "new_key": { "value": change("1", json!({
                "new_key_ref": "vault-2", "participants": [0, 1, 2], "threshold": 2,
            })) },
        }),
        "DismissRequest" => json!({ "all": { "value": { "through": 4096 } } }),
        "ResendRequest" => json!({ "all": { "value": { "from": 0 } } }),
        "RejectOperationRequest" => json!({ "wrong_account": { "value": {
            "subject_id": "alice", "roles": ["approver"], "reason": "the account is not our supplier's", "rejected_at_ms": INSTANT_MS,
        } } }),
        "CancelOperationRequest" => {
            json!({ "twice": { "value": { "reason": "the invoice was paid already" } } })
        }
        "CustodyAbortRequest" => json!({
            "before_the_decision": { "value": {
                "subject_id": "alice", "roles": ["approver"], "reason": "the node of participant 2 does not come back", "aborted_at_ms": INSTANT_MS,
            } },
            "lost_receiver": { "value": {
                "subject_id": "alice", "roles": ["approver"], "reason": "the disk of participant 2 is lost", "lost_participants": [2],
                "aborted_at_ms": INSTANT_MS,
            } },
        }),
        "CustodyExternalExportRequest" => json!({ "settled": { "value": export() } }),
        _ => json!({}),
    }
}

/// The caller's clock in every example.
const INSTANT_MS: u64 = 1_790_000_000_000;

fn client(subject: &str, scope: &str) -> Value {
    json!({ "client_id": "treasury", "subject_id": subject, "roles": ["operator"], "scopes": [scope] })
}

fn payment() -> Value {
    json!({
        "idempotency_key": "invoice-2026-0017",
        "key_ref": "treasury-1",
        "payment": {
            "from_account": "acct-operating",
            "to_account": "acct-supplier",
            "amount_minor": 12_500,
            "currency": "EUR",
            "reference": "invoice 17",
        },
        "requested_participants": [0, 1, 2],
        "threshold": 2,
        "publication_mode": "manual",
        "client": client("carol", "operations.sign"),
    })
}

fn approval(subject: &str) -> Value {
    json!({ "subject_id": subject, "roles": ["approver"], "approved_at_ms": INSTANT_MS })
}

fn key() -> Value {
    json!({
        "key_ref": "vault-1",
        "tenant_id": "default",
        "asset_id": "btc",
        "purpose": "cold storage",
        "threshold": 2,
        "participants": [0, 1, 2],
        "signature_profile": "frost-secp256k1-sha256-tr",
        "chains": ["bitcoin"],
        "client": client("dora", "custody.manage"),
    })
}

fn asset_action() -> Value {
    json!({
        "idempotency_key": "move-17",
        "asset_id": "btc",
        "action": "transfer",
        "chain_id": "bitcoin",
        "request_digest": "5a".repeat(32),
        "typed_data_root": "6b".repeat(32),
        "requested_participants": [0, 1, 2],
        "publication_mode": "manual",
        "client": client("dora", "custody.sign"),
        "public_fields": { "memo": "vault move" },
    })
}

/// A change of a key: the members that all changes have, and `extra`.
fn change(target_epoch: &str, extra: Value) -> Value {
    let mut body = Map::from_iter([
        ("target_epoch".to_owned(), json!(target_epoch)),
        ("reason".to_owned(), json!("yearly drill")),
        ("publication_mode".to_owned(), json!("automatic")),
        ("client".to_owned(), client("dora", "custody.manage")),
    ]);
    if let Value::Object(extra) = extra {
        body.extend(extra);
    }
    Value::Object(body)
}

fn recovery() -> Value {
    json!({
        "recovery_case_ref": "case-9",
        "recovering_participant": 2,
        "helper_participants": [0, 1],
        "helper_share_cids": ["cid-0", "cid-1"],
    })
}

fn export() -> Value {
    json!({
        "publication_receipt": "the operation's",
        "rail": "swift",
        "export_ref": "7c".repeat(32),
        "state": "Settled",
        "external_id": "external-98765",
        "exported_at_ms": INSTANT_MS,
    })
}
