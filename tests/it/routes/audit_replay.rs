use crate::harness::samples::{approval, path, payment, publication, published, submitted, with};
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn audit_replay_requires_audit_read() {
    let world = World::start().await;
    let operation = submitted(&world, &payment("scope")).await;
    let audit = path(&operation, "/audit-replay");
    let identity = |scope| [("x-client-id", "d"), ("x-subject-id", "s"), ("x-scopes", scope)];
    for scope in ["operations.sign", "operations.*", "custody.*", ""] {
        let answer = world.call_as(&identity(scope), "GET", &audit, &Value::Null).await;
        answer.fails(403, "audit_replay_forbidden");
    }
    world.call_as(&identity("audit.read"), "GET", &audit, &Value::Null).await.ok();
}

#[tokio::test]
async fn audit_replay_discloses_exactly_the_listed_fields() {
    let world = World::start().await;
    let body = with(payment("redacted"), "/client/token_jti", json!("jti-secret-1"));
    let body = with(body, "/client/cert_sha256", json!("cert-secret-2"));
    let operation = published(&world, &body).await;
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
async fn signature_is_hidden_before_its_publication() {
    let world = World::start().await;
    let operation = crate::harness::samples::executed(&world, &payment("gate")).await;
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert!(!operation.to_string().contains("signature_hex"));
    let executed = |audit: &Value| {
        let events = audit["events"].as_array().unwrap().clone();
        events.into_iter().find(|entry| entry["event"]["change"]["type"] == "executed").unwrap()
    };
    assert_eq!(executed(&audit)["disclosures"], json!([]));
    world.post(&path(&operation, "/publish"), &publication()).await.ok();
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    let opened = &executed(&audit)["disclosures"][0];
    assert_eq!(opened["path"], "/change/signature/signature_hex");
}

#[tokio::test]
async fn audit_replay_keeps_the_newest_events_below_the_size_cap() {
    let cap = 16 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = submitted(&world, &payment("cap")).await;
    let all = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert_eq!(all["truncated"], false);
    for number in 0..70 {
        world
            .post(&path(&operation, "/approve"), &approval(&format!("{number}-{}", "x".repeat(900))))
            .await
            .ok();
    }
    let newest = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert!(newest.to_string().len() <= cap, "{}", newest.to_string().len());
    assert_eq!(newest["truncated"], true);
    let total = newest["total_events"].as_u64().unwrap();
    assert_eq!(newest["events"].as_array().unwrap().last().unwrap()["seq"], total);
    assert_eq!(newest["events"].as_array().unwrap().last().unwrap()["event_hash"], newest["record_root"]);
}

#[tokio::test]
async fn caller_that_advances_an_operation_is_in_its_evidence() {
    let world = World::start().await;
    let operation = submitted(&world, &payment("asked-by")).await;
    let alice = [
        ("x-client-id", "desk-2"),
        ("x-subject-id", "alice"),
        ("x-roles", "approver"),
        ("x-scopes", "operations.approve"),
    ];
    let body = with(approval("alice"), "/colour", json!("blue"));
    world.call_as(&alice, "POST", &path(&operation, "/approve"), &body).await.ok();
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let event = &evidence["events"][2];
    assert_eq!(event["event"]["asked_by"]["client"]["client_id"], "desk-2");
    let opened = event["disclosures"].as_array().unwrap().iter();
    let unknown = opened.clone().find(|field| field["path"] == "/asked_by/unknown_fields").unwrap();
    assert_eq!(unknown["value"], json!(["/colour"]));
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert!(!audit.to_string().contains("colour"), "{audit}");
}
