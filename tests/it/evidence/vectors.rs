//! The operations of the test vectors that `host/docs/evidence.md` names.

use super::assert_holds;
use super::nodes::Logs;
use super::reader;
use crate::harness::custody::{self, KEYS, execute, key, key_path, refresh, reshare, sign};
use crate::harness::samples::{self, payment, with};
use crate::harness::world::World;
use gateway_evidence::{EvidenceReader, NodeLogFile, NodeLogs, Roots};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const TR: &str = "frost-secp256k1-sha256-tr";

/// With UPDATE_VECTORS, writes the vectors.
#[tokio::test]
async fn payment_reshare_output_key_and_failure_hold_with_the_logs_of_their_nodes() {
    let world = World::ticking().await;
    for (name, profile) in [("treasury-1", TR), ("vault", "frost-ed25519-sha512"), ("coins", TR)] {
        execute(&world, KEYS, &with(key(name), "/signature_profile", json!(profile))).await;
    }
    let paid = with(with(payment("invoice-17"), "/key_ref", json!("treasury-1")), "/threshold", json!(2));
    let paid = samples::publish(&world, &paid).await;
    execute(&world, &key_path("vault", "/refresh"), &refresh("2")).await;
    let reshared = with(reshare("3"), "/new_participants", json!([0, 1, 2, 3]));
    let reshared = custody::publish(&world, &key_path("vault", "/reshare"), &reshared).await;
    let mut output = sign("output");
    output["bip32"] = json!({ "network": "main", "path": "0/2147483647" });
    output["taproot"] = json!({ "merkle_root": "11".repeat(32) });
    let output = custody::publish(&world, &key_path("coins", "/sign"), &output).await;
    let failed = custody::admit(&world, &key_path("coins", "/sign"), &sign("refused")).await;
    world.faults.set_rejecting(true);
    world.post_nothing(&custody::path(&failed, "/execute")).await;
    world.faults.set_rejecting(false);

    let evidence = async |path: String| world.get(&path).await.ok();
    let documents = [
        ("payment.json", evidence(samples::path(&paid, "/evidence")).await),
        ("reshare.json", evidence(custody::path(&reshared, "/evidence")).await),
        ("taproot.json", evidence(custody::path(&output, "/evidence")).await),
        ("failed.json", evidence(custody::path(&failed, "/evidence")).await),
    ];
    let states = documents.each_ref().map(|(_, document)| document["state"].as_str().unwrap());
    assert_eq!(states, ["published", "published", "published", "failed"]);
    let logs = Logs::of(&world, &[0, 1, 2, 3]).await;
    let logs: Vec<_> = (0..4).map(|index| logs.text(index)).collect();
    let file = world.roots().await;
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/evidence/vectors");
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap() + "\n";
        for (name, document) in &documents {
            fs::write(folder.join(name), pretty(document)).unwrap();
        }
        fs::write(folder.join("roots.json"), pretty(&serde_json::to_value(&file).unwrap())).unwrap();
        for (node, log) in logs.iter().enumerate() {
            fs::write(folder.join(format!("nodes/node-{node}.jsonl")), log).unwrap();
        }
    }
    let roots = Roots::new(file).unwrap();
    let read = |log: &String| NodeLogFile::read(log.as_bytes()).unwrap();
    let nodes = NodeLogs::new(logs.iter().map(read).collect(), &roots).unwrap();
    let reader = EvidenceReader { nodes: Some(&nodes), ..reader(&roots) };
    for (name, document) in documents {
        let report = gateway_evidence::verify(vec![document], &reader);
        assert_holds(
            &report,
            &["operation", "admission", "receipts", "key", "ending", "log", "released shares"],
        );
        let signature = report.checks.iter().any(|check| check.name == "signature");
        assert_eq!(signature, ["payment.json", "taproot.json"].contains(&name), "{name}");
    }
}
