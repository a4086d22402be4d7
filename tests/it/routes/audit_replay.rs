use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::samples::{approval, execute, path, payment, publication, publish, submit, with};
use crate::harness::world::World;
use base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn audit_replay_requires_audit_read() {
    let world = World::start().await;
    let operation = submit(&world, &payment("scope")).await;
    let audit = path(&operation, "/audit-replay");
    let get =
        async |scope| world.call_as(&test_caller("eve", scope).headers(), "GET", &audit, &Value::Null).await;
    for scope in ["operations.sign", "operations.*", "custody.*", ""] {
        get(scope).await.fails(403, "audit_replay_forbidden");
    }
    get("audit.read").await.ok();
}

#[tokio::test]
async fn audit_replay_masks_accounts_and_omits_references_and_credentials() {
    let world = World::start().await;
    let body = with(payment("redacted"), "/client/token_jti", json!("jti-secret-1"));
    let body = with(body, "/client/cert_sha256", json!("cert-secret-2"));
    let operation = publish(&world, &body).await;
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    let text = audit.to_string();
    for hidden in ["jti-secret-1", "cert-secret-2", "acct-supplier-0042", "acct-operating-0001", "invoice 17"]
    {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    assert!(text.contains("…0042") && text.contains("alice"));
    assert_eq!(audit["record_root"], operation["runtime"]["record_root"]);
    assert_eq!(audit["total_events"], audit["events"].as_array().unwrap().len());
}

#[tokio::test]
async fn evidence_discloses_the_signature_only_after_publication_and_an_audit_log_never() {
    let world = World::start().await;
    let operation = execute(&world, &payment("gate")).await;
    assert!(!operation.to_string().contains("signature_hex"));
    let is_disclosed = async |document: &str| {
        let document = world.get(&path(&operation, document)).await.ok();
        let mut events = document["events"].as_array().unwrap().iter();
        let executed = events.find(|entry| entry["event"]["change"]["type"] == "executed").unwrap();
        let mut disclosed = executed["disclosures"].as_array().unwrap().iter();
        disclosed.any(|field| field["path"] == "/change/signature/signature_hex")
    };
    assert_eq!([is_disclosed("/evidence").await, is_disclosed("/audit-replay").await], [false, false]);
    world.post(&path(&operation, "/publish"), &publication()).await.ok();
    assert_eq!([is_disclosed("/evidence").await, is_disclosed("/audit-replay").await], [true, false]);
}

/// All texts of at least 16 characters in a document, in its strings, and in those of the payload of the signed decision.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(payload) = members.get("payload").and_then(Value::as_str) {
                let payload = base64::engine::general_purpose::STANDARD.decode(payload).unwrap();
                texts(&serde_json::from_slice(&payload).unwrap(), found);
            }
            members.values().for_each(|value| texts(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::String(text) if text.len() >= 16 => drop(found.insert(text.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A reader of an audit log can try accounts, and compute from each what the gateway, the authority and the nodes computed from it.
#[tokio::test]
async fn audit_log_has_no_digest_from_which_masked_accounts_could_be_guessed() {
    let world = World::start().await;
    let mut guessed = BTreeSet::new();
    let operation = publish(&world, &payment("guess")).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    // All that follows from the intent and is computed again from a guess: digests, and signatures that verify over them.
    for name in ["intent_hash", "decision", "policy", "receipts", "result", "effects"] {
        texts(&evidence[name], &mut guessed);
    }
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    let mut shown = BTreeSet::new();
    texts(&audit["events"], &mut shown);
    // Ids, names, keys and digests over signatures, which no guess reaches.
    let open = ["bundle_hash", "operation_id", "key_id", "epoch_root"];
    let decision: Value = {
        let payload = evidence["decision"]["envelope"]["payload"].as_str().unwrap();
        serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(payload).unwrap()).unwrap()
    };
    let open: BTreeSet<_> =
        open.iter().filter_map(|name| decision[name].as_str().map(str::to_owned)).collect();
    let signed_over = ["policy_receipt_id", "publication_receipt"]
        .map(|name| operation["runtime"][name].as_str().unwrap().to_owned());
    let result = &evidence["result"];
    let public = ["public_key_hex", "package_hash", "signature_profile"]
        .map(|name| result[name].as_str().unwrap().to_owned());
    let result_ref = evidence["result_ref"].as_str().unwrap().to_owned();
    let found: Vec<_> = guessed
        .intersection(&shown)
        .filter(|text| {
            !open.contains(*text)
                && !signed_over.contains(text)
                && !public.contains(text)
                && **text != result_ref
        })
        .collect();
    assert_eq!(found, Vec::<&String>::new());
    for hidden in [
        "intent_hash",
        "admission_hash",
        "request_digest",
        "approvals_root",
        "policy_input_hash",
        "policy_output_hash",
    ] {
        let value = operation["runtime"][hidden].as_str().or(decision[hidden].as_str()).unwrap();
        assert!(guessed.contains(value) && !shown.contains(value), "{hidden}");
    }
}

#[tokio::test]
async fn audit_replay_drops_the_oldest_events_to_fit_the_size_limit() {
    let cap = 16 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = submit(&world, &payment("cap")).await;
    let all = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert_eq!(all["truncated"], false);
    for number in 0..70 {
        let approval = approval(&format!("{number}-{}", "x".repeat(900)));
        world.post(&path(&operation, "/approve"), &approval).await.ok();
    }
    let newest = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert!(newest.to_string().len() <= cap, "{}", newest.to_string().len());
    assert_eq!(newest["truncated"], true);
    let total = newest["total_events"].as_u64().unwrap();
    let last = newest["events"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["seq"], &last["event_hash"]), (&json!(total), &newest["record_root"]));
}

#[tokio::test]
async fn evidence_records_the_approving_client_and_unknown_members() {
    let world = World::start().await;
    let operation = submit(&world, &payment("requester")).await;
    let alice = TestCaller { client: "desk-2", ..test_caller("alice", "operations.approve") }.headers();
    let body = with(approval("alice"), "/colour", json!("blue"));
    world.call_as(&alice, "POST", &path(&operation, "/approve"), &body).await.ok();
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let event = &evidence["events"][2];
    assert_eq!(event["event"]["asked_by"]["client"]["client_id"], "desk-2");
    let mut disclosed = event["disclosures"].as_array().unwrap().iter();
    let unknown = disclosed.find(|field| field["path"] == "/asked_by/unknown_fields").unwrap();
    assert_eq!(unknown["value"], json!(["/colour"]));
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert!(!audit.to_string().contains("colour"), "{audit}");
}
