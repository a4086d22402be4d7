use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::samples::{approval, execute, path, payment, publication, publish, submit, with};
use crate::harness::world::World;
use serde_json::{Value, json};

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
async fn signature_is_disclosed_only_after_publication() {
    let world = World::start().await;
    let operation = execute(&world, &payment("gate")).await;
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert!(!operation.to_string().contains("signature_hex"));
    let executed = |audit: &Value| {
        let events = audit["events"].as_array().unwrap().clone();
        events.into_iter().find(|entry| entry["event"]["change"]["type"] == "executed").unwrap()
    };
    assert_eq!(executed(&audit)["disclosures"], json!([]));
    world.post(&path(&operation, "/publish"), &publication()).await.ok();
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    let disclosed = &executed(&audit)["disclosures"][0];
    assert_eq!(disclosed["path"], "/change/signature/signature_hex");
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
