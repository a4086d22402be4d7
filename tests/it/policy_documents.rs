//! Signed documents that a policy reads: from the operator's folder to the decision, the nodes and the evidence.
//!
//! The policy denies every signature unless it finds exchange rates.

use crate::evidence;
use crate::harness::bundles::{key, write_folder};
use crate::harness::cluster::Cluster;
use crate::harness::forged::Forger;
use crate::harness::process::{SIGN, post, request};
use crate::harness::samples::{approval, path, payment, publication, submit};
use crate::harness::world::World;
use gateway_domain::dsse::Role;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_evidence::Roots;
use gateway_policy::TrustPolicy;
use gateway_policy::testing::{rates, rates_bundle, signed_document};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const NEVER: EpochMs = EpochMs(9_000_000_000_000);

fn role(name: &str, seed: u8) -> Role {
    let public = Hex32::new(key(seed).verifying_key().to_bytes());
    Role { role: name.into(), threshold: 1, keys: [public].into() }
}

/// Writes the policy, and trust roots by which the key 2 signs exchange rates.
fn write_policy(folder: &Path) {
    let trust =
        TrustPolicy { roles: vec![role("author", 1)], documents: vec![role("rates", 2)], revoked: [].into() };
    fs::write(folder.join("trust.json"), serde_json::to_vec(&trust).unwrap()).unwrap();
    write_folder(&folder.join("bundle"), &rates_bundle(1, &key(1)));
    fs::create_dir_all(folder.join("documents")).unwrap();
}

fn write_rates(folder: &Path, sequence: u64) {
    let envelope = signed_document(&rates(sequence, NEVER), &[&key(2)]).envelope;
    fs::write(folder.join("documents/rates.json"), serde_json::to_vec(&envelope).unwrap()).unwrap();
}

fn settings(folder: &Path) -> Vec<(&'static str, String)> {
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    vec![
        ("policy_bundle", at("bundle")),
        ("policy_trust_roots", at("trust.json")),
        ("policy_documents", at("documents")),
    ]
}

type Lie = (&'static str, fn(&mut Value));

/// What a gateway that has the log's key and the authority's can write into the decision's evaluation.
const LIES: [Lie; 5] = [
    ("no document", |policy| policy["documents"] = json!([])),
    ("another hash", |policy| policy["facts"][1]["value"] = json!("00".repeat(32))),
    ("a time after it expired", |policy| policy["facts"][0]["value"] = json!((NEVER.0 + 1).to_string())),
    ("another document", |policy| {
        policy["documents"][0] = json!(signed_document(&rates(2, NEVER), &[&key(2)]).envelope);
    }),
    ("a document of its own", |policy| {
        let own = signed_document(&rates(2, NEVER), &[&key(3)]);
        policy["facts"][1]["value"] = json!(own.hash);
        policy["documents"][0] = json!(own.envelope);
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn decision_names_the_document_and_evidence_proves_it() {
    let folder = tempfile::tempdir().unwrap();
    write_policy(folder.path());
    write_rates(folder.path(), 1);
    let settings = settings(folder.path());
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let world = World::with(&settings).await;
    let view = submit(&world, &payment("first")).await;
    for subject in ["alice", "bob"] {
        world.post(&path(&view, "/approve"), &approval(subject)).await.ok();
    }
    world.post_nothing(&path(&view, "/execute")).await.ok();
    world.post(&path(&view, "/publish"), &publication()).await.ok();
    let listed = format!("/v1/policy/decisions?operation_id={}", view["operation_id"].as_str().unwrap());
    let hash = signed_document(&rates(1, NEVER), &[&key(2)]).hash;
    let read = &world.get(&listed).await.ok()["decisions"][0]["facts"][1];
    assert_eq!(*read, json!({ "name": "document.rates", "value": hash, "class": "proven" }));

    let document = world.get(&path(&view, "/evidence")).await.ok();
    let mut file = world.roots().await;
    let report = evidence::verify(&document, &Roots::new(file.clone()).unwrap());
    let unchecked =
        report.checks.iter().any(|check| format!("{check:?}").contains("name no keys in `documents`"));
    assert!(unchecked, "{report:#?}");
    file.documents = vec![role("rates", 2)];
    let roots = Roots::new(file.clone()).unwrap();
    let report = evidence::verify(&document, &roots);
    evidence::assert_holds(&report, &["policy documents", "chain", "operation"]);
    let mut documents = vec![(report.verdict(), document.clone())];
    let forger = Forger::new(&world, &document).await;
    let at = format!("/events/{}/event/change/policy/", forger.index_of("decision_signed"));
    for (what, lie) in LIES {
        let forged = forger.with_event("decision_signed", |event| lie(&mut event["change"]["policy"])).await;
        let report = evidence::verify(&forged, &roots);
        assert!(report.findings().any(|finding| finding.at.starts_with(&at)), "{what}: {report:#?}");
        documents.push((report.verdict(), forged));
    }
    crate::paid::keep("documents", &file, &documents);
}

/// Submits a payment that Alice and Bob approve. Returns the answer to the last call.
fn pay(address: &str, name: &str) -> (u16, Value) {
    let (status, submitted) = request(address, "POST", SIGN, Some(&payment(name))).unwrap();
    if status >= 300 {
        return (status, submitted);
    }
    let path = format!("/v1/operations/{}/approve", submitted["operation"]["operation_id"].as_str().unwrap());
    post(address, &path, Some(&approval("alice"))).unwrap();
    request(address, "POST", &path, Some(&approval("bob"))).unwrap()
}

/// Processes under the policy. The gateway is stopped and started with other documents, so that it remembers none.
#[test]
fn gateway_that_goes_back_to_an_older_document_gets_no_decision() {
    let mut cluster = Cluster::prepare(3, |port| port);
    let folder = cluster.folder().to_owned();
    write_policy(&folder);
    let settings = settings(&folder);
    cluster.set_everywhere(&[("policy_trust_roots", &settings[1].1)]);
    cluster.gateway_settings.insert("policy_bundle", settings[0].1.clone());
    cluster.gateway_settings.insert("policy_documents", settings[2].1.clone());
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    let (status, denied) = pay(cluster.address(), "without");
    assert_eq!((status, &denied["error"]), (403, &json!("policy_rejected")), "{denied}");
    let restarted_with = |cluster: &mut Cluster, sequence| {
        write_rates(&folder, sequence);
        cluster.gateway.take().unwrap().terminate();
        cluster.start_gateway();
    };
    for (sequence, expected) in [(4, 200), (6, 200), (5, 503), (7, 200)] {
        restarted_with(&mut cluster, sequence);
        let (status, answer) = pay(cluster.address(), &format!("with {sequence}"));
        assert_eq!(status, expected, "{sequence}: {answer}");
        match status {
            200 => assert_eq!(answer["state"], "admitted", "{answer}"),
            _ => assert!(
                answer.to_string().contains("sequence 5, and another one with sequence 6"),
                "{answer}"
            ),
        }
    }
    cluster.stop();
}
