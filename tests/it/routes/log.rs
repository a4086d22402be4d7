use super::UNKNOWN;
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::samples::{path, payment, publish, submit};
use crate::harness::world::World;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{
    SignedCheckpoint, TlogProof, VerifierKey, empty_root, leaf_hash, verify_consistency, verify_inclusion,
};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const ROUTES: [&str; 5] = ["checkpoint", "key", "consistency", "inclusion", "tlog-proof"];

/// The log's public key.
async fn key(world: &World) -> VerifierKey {
    world.text("/v1/log/key").await.trim_end().parse().unwrap()
}

async fn checkpoint(world: &World) -> SignedCheckpoint {
    world.text("/v1/log/checkpoint").await.parse().unwrap()
}

fn hash(value: &Value) -> Hex32 {
    value.as_str().unwrap().parse().unwrap()
}

fn hashes(value: &Value) -> Vec<Hex32> {
    value.as_array().unwrap().iter().map(hash).collect()
}

/// Number and hash of an operation's last event.
async fn last_event(world: &World, operation: &Value) -> (u64, Hex32) {
    let audit = world.get(&path(operation, "/audit-replay")).await.ok();
    (audit["total_events"].as_u64().unwrap(), hash(&audit["record_root"]))
}

#[tokio::test]
async fn log_routes_require_audit_read() {
    let world = World::start().await;
    for route in ROUTES {
        for scope in ["operations.*", "custody.*", ""] {
            let headers = test_caller("eve", scope).headers();
            let answer = world.call_as(&headers, "GET", &format!("/v1/log/{route}"), &Value::Null).await;
            answer.fails(403, "audit_replay_forbidden");
        }
    }
    let auditor = test_caller("eve", "audit.read").headers();
    let answer = world.call_as(&auditor, "GET", "/v1/log/checkpoint", &Value::Null).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn checkpoints_are_signed_and_consistent_with_earlier_ones() {
    let world = World::start().await;
    let key = [key(&world).await];
    assert_eq!(key[0].name().as_str(), "operation-gateway.local/log");
    // The log begins with the activation of the bundle.
    let first = checkpoint(&world).await;
    assert_eq!(first.verify(&key).unwrap().size(), 1);
    assert_ne!(first.unverified().root(), empty_root());
    let mut earlier = Vec::new();
    for number in 0..4 {
        let operation = submit(&world, &payment(&format!("checkpoint-{number}"))).await;
        let signed = checkpoint(&world).await;
        let now = signed.verify(&key).unwrap().clone();
        assert_eq!(now.root(), hash(&operation["runtime"]["ledger_root"]));
        earlier.push(now.clone());
        for before in &earlier {
            let (first, second) = (before.size(), now.size());
            let shown = world.get(&format!("/v1/log/consistency?first={first}&second={second}")).await.ok();
            assert_eq!(shown["first"], json!({ "size": first, "root": before.root() }));
            assert_eq!(shown["second"], json!({ "size": second, "root": now.root() }));
            let proof = hashes(&shown["hashes"]);
            assert_eq!(verify_consistency(first, second, &proof, before.root(), now.root()), Ok(()));
        }
    }
}

#[tokio::test]
async fn every_event_has_a_proof_by_index_and_by_operation() {
    let world = World::start().await;
    let operation = publish(&world, &payment("proved")).await;
    let (total, _) = last_event(&world, &operation).await;
    let key = [key(&world).await];
    let id = operation["operation_id"].as_str().unwrap();
    let events = world.get(&path(&operation, "/audit-replay")).await.ok()["events"].clone();
    for event in events.as_array().unwrap() {
        let leaf = leaf_hash(hash(&event["event_hash"]));
        let seq = event["seq"].as_u64().unwrap();
        let text = world.text(&format!("/v1/log/tlog-proof?operation_id={id}&seq={seq}")).await;
        let proof: TlogProof = text.parse().unwrap();
        let head = proof.verify(leaf, &key).unwrap();
        let (index, size) = (proof.index, head.size());
        let shown = world.get(&format!("/v1/log/inclusion?index={index}&size={size}")).await.ok();
        assert_eq!((hash(&shown["leaf_hash"]), shown["index"].as_u64()), (leaf, Some(index)));
        assert_eq!(shown["head"], json!({ "size": size, "root": head.root() }));
        let hashes = hashes(&shown["hashes"]);
        assert_eq!(hashes, proof.hashes);
        assert_eq!(verify_inclusion(leaf, index, size, &hashes, head.root()), Ok(()));
    }
    let after_last = format!("/v1/log/tlog-proof?operation_id={id}&seq={}", total + 1);
    world.get(&after_last).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn log_proof_matches_the_event_hash_in_the_evidence() {
    let world = World::start().await;
    let operation = submit(&world, &payment("evidence")).await;
    submit(&world, &payment("after it")).await;
    let id = OperationId(hash(&operation["operation_id"]));
    let (seq, event_hash) = last_event(&world, &operation).await;
    let evidence = world.engine.inclusion_evidence(id, seq).await.unwrap().unwrap();
    let head = evidence.tlog_proof.verify(leaf_hash(event_hash), &[key(&world).await]).unwrap();
    assert_eq!((evidence.tlog_proof.index, evidence.after.size), (evidence.index, evidence.index + 1));
    // The operation's view has the log's root after the operation's last event.
    assert_eq!(evidence.after.root, hash(&operation["runtime"]["ledger_root"]));
    let (first, second) = (evidence.after, head);
    assert_eq!(
        verify_consistency(first.size, second.size(), &evidence.consistency, first.root, second.root()),
        Ok(())
    );
    assert!(second.size() > first.size && !evidence.consistency.is_empty());
    assert_eq!(world.engine.inclusion_evidence(id, seq + 1).await.unwrap(), None);
}

#[tokio::test]
async fn invalid_log_queries_are_refused() {
    let world = World::start().await;
    let operation = submit(&world, &payment("hostile")).await;
    let id = operation["operation_id"].as_str().unwrap();
    let too_large = checkpoint(&world).await.unverified().size() + 1;
    for query in [
        "",
        &format!("first=1&second={too_large}"),
        &format!("first={too_large}&second={too_large}"),
        "first=1",
        "second=1",
        "first=0&second=1",
        "first=2&second=1",
        "first=1&second=18446744073709551615",
        "first=1&second=18446744073709551616",
        "first=-1&second=1",
        "first=%31&second=1",
        "first=+1&second=1",
        "first=1&second=1&second=1",
        "first=&second=1",
        "first=1.0&second=1",
    ] {
        world.get(&format!("/v1/log/consistency?{query}")).await.fails(400, "invalid_request");
    }
    for query in [
        "",
        "index=0",
        "size=1",
        "index=0&size=0",
        "index=1&size=1",
        "index=2&size=2",
        &format!("index=0&size={too_large}"),
        "index=18446744073709551615&size=18446744073709551615",
        "index=0&size=x",
        "index=0&index=0&size=1",
    ] {
        world.get(&format!("/v1/log/inclusion?{query}")).await.fails(400, "invalid_request");
    }
    for seq in ["0", "3", "x", "", "18446744073709551615", "1&seq=1"] {
        let path = format!("/v1/log/tlog-proof?operation_id={id}&seq={seq}");
        world.get(&path).await.fails(400, "invalid_request");
    }
    for wrong in ["", "operation_id=1", "operation_id=", &format!("operation_id={}&seq=1", id.to_uppercase())]
    {
        world.get(&format!("/v1/log/tlog-proof?{wrong}")).await.fails(400, "invalid_operation_id");
    }
    let unknown = format!("/v1/log/tlog-proof?operation_id={UNKNOWN}&seq=1");
    world.get(&unknown).await.fails(404, "operation_not_found");
}

#[tokio::test]
async fn without_witnesses_there_is_no_witnessed_checkpoint() {
    let world = World::start().await;
    world.get("/v1/log/checkpoint?witnessed=true").await.fails(404, "not_found");
    for wrong in ["", "1", "yes", "true&witnessed=true"] {
        world.get(&format!("/v1/log/checkpoint?witnessed={wrong}")).await.fails(400, "invalid_request");
    }
    assert_eq!(
        world.text("/v1/log/checkpoint?witnessed=false").await,
        world.text("/v1/log/checkpoint").await
    );
}

#[tokio::test]
async fn log_proof_of_another_tenants_operation_is_not_found() {
    let world = World::start().await;
    let operation = submit(&world, &payment("tenant")).await;
    let id = operation["operation_id"].as_str().unwrap();
    let auditor = TestCaller { tenant: Some("other"), ..test_caller("eve", "audit.read") };
    let path = format!("/v1/log/tlog-proof?operation_id={id}&seq=1");
    world.call_as(&auditor.headers(), "GET", &path, &Value::Null).await.fails(404, "operation_not_found");
}

/// Runs `scripts/verify_tlog_proof.py`; returns whether it accepts the proof, and its output.
fn verify_with_python(proof: &str, key: &str, event_hash: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("event.tlog-proof");
    std::fs::write(&file, proof).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/verify_tlog_proof.py");
    let output = Command::new("python3").arg(script).arg(file).args([key, event_hash]).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).unwrap())
}

#[tokio::test]
async fn independent_program_verifies_a_log_proof() {
    let world = World::start().await;
    let operation = publish(&world, &payment("third party")).await;
    let (seq, event_hash) = last_event(&world, &operation).await;
    let id = operation["operation_id"].as_str().unwrap();
    let proof = world.text(&format!("/v1/log/tlog-proof?operation_id={id}&seq={seq}")).await;
    let parsed: TlogProof = proof.parse().unwrap();
    let (index, size) = (parsed.index, parsed.checkpoint.unverified().size());
    let (key, event_hash) = (key(&world).await.to_string(), event_hash.to_string());
    let (accepted, output) = verify_with_python(&proof, &key, &event_hash);
    assert!(accepted && output.contains(&format!("the event at {index} of {size}")), "{output}");
    let other_key = World::start().await.text("/v1/log/key").await;
    let replace = |from: String, to: String| {
        assert!(proof.contains(&from), "{from:?}");
        proof.replacen(&from, &to, 1)
    };
    let changes = [
        (replace(format!("index {index}\n"), format!("index {}\n", index - 1)), &*key, &*event_hash),
        (replace(format!("\n{size}\n"), format!("\n{}\n", size + 1)), &key, &event_hash),
        (replace("gateway.local/log\n".into(), "gateway.other/log\n".into()), &key, &event_hash),
        (proof.clone(), other_key.trim_end(), &event_hash),
        (proof.clone(), &key, UNKNOWN),
    ];
    for (proof, key, event_hash) in changes {
        let (accepted, output) = verify_with_python(&proof, key, event_hash);
        assert!(!accepted && output.starts_with("the event is NOT proved"), "{output}");
    }
}
