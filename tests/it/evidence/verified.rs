use super::{assert_holds, published_evidence, reader, roots, verify};
use crate::harness::custody;
use crate::harness::samples::{approval, path, payment, publication, publish, submit, with};
use crate::harness::world::World;
use gateway_domain::operation::Evaluation;
use gateway_evidence::verify::Status;
use gateway_evidence::{EvidenceReader, NodeLogFile, NodeLogs, RerunPolicy, Roots};
use serde_json::{Value, json};
use std::fs;
use std::io::BufReader;
use std::path::Path;

/// Checks that hold for a published payment. The first five hold before its admission, the first seven before its publication.
const ALL: [&str; 10] = [
    "form",
    "chain",
    "opened fields",
    "operation",
    "policy decisions",
    "admission",
    "receipts",
    "signature",
    "ending",
    "log",
];

#[tokio::test]
async fn evidence_of_a_published_payment_holds() {
    let world = World::start().await;
    let operation = publish(&world, &payment("holds")).await;
    // Another operation follows, so that this operation's last event is not the last one in the log.
    publish(&world, &payment("another")).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    assert_eq!(evidence["intent"]["to_account"], "acct-supplier-0042");
    assert_holds(&verify(&evidence, &roots(&world).await), &ALL);
}

/// The evidence that `host/docs/evidence.md` gives as test vectors still verifies.
#[test]
fn evidence_of_the_test_vectors_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/evidence/vectors");
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap() };
    let roots = Roots::new(serde_json::from_value(read("roots.json")).unwrap()).unwrap();
    let log = |node: u16| {
        let file = fs::File::open(folder.join(format!("nodes/node-{node}.jsonl"))).unwrap();
        NodeLogFile::read(BufReader::new(file)).unwrap()
    };
    let nodes = NodeLogs::new((0..4).map(log).collect(), &roots).unwrap();
    for name in ["payment.json", "reshare.json", "taproot.json", "failed.json"] {
        let reader = EvidenceReader { nodes: Some(&nodes), ..reader(&roots) };
        let report = gateway_evidence::verify(vec![read(name)], &reader);
        let (of_events, of_nodes) = (
            ["chain", "opened fields", "operation", "admission", "receipts", "key", "log"],
            ["node logs", "released shares"],
        );
        assert_holds(&report, &of_events);
        assert_holds(&report, &of_nodes);
    }
}

/// Of a refresh that was aborted, and of one that did without a lost node.
#[test]
fn evidence_of_the_aborted_test_vectors_holds() {
    for name in ["aborted", "without"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/evidence/vectors").join(name);
        let read = |name: &str| fs::read(folder.join(name)).unwrap();
        let roots = Roots::new(serde_json::from_slice(&read("roots.json")).unwrap()).unwrap();
        let evidence = serde_json::from_slice(&read("evidence.json")).unwrap();
        assert_holds(
            &verify(&evidence, &roots),
            &["chain", "operation", "admission", "receipts", "key", "log"],
        );
    }
}

/// The reader's number of authorities counts, whatever the deployment's was.
#[test]
fn evidence_signed_by_fewer_authorities_than_the_reader_requires_fails() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/evidence/vectors");
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap() };
    let mut file = read("roots.json");
    let another = file["nodes"]["0"].clone();
    file["authorities"].as_array_mut().unwrap().push(another);
    for (threshold, holds) in [(1, true), (2, false)] {
        file["authority_threshold"] = json!(threshold);
        let roots = Roots::new(serde_json::from_value(file.clone()).unwrap()).unwrap();
        let report = gateway_evidence::verify(vec![read("payment.json")], &reader(&roots));
        let admission = report.checks.iter().find(|check| check.name == "admission").unwrap();
        assert_eq!(matches!(admission.status, Status::Holds(_)), holds, "{threshold}: {admission:?}");
    }
    file["authority_threshold"] = json!(3);
    assert!(Roots::new(serde_json::from_value(file).unwrap()).is_err());
}

#[tokio::test]
async fn evidence_of_a_child_key_payment_holds() {
    let body = with(payment("child"), "/bip32", json!({ "network": "bitcoin", "path": "0/7" }));
    let (world, evidence) = published_evidence(&body).await;
    assert_holds(&verify(&evidence, &roots(&world).await), &ALL);
}

#[tokio::test]
async fn evidence_of_a_signature_for_a_taproot_output_holds() {
    let world = World::start().await;
    let create = with(custody::key("btc"), "/signature_profile", json!("frost-secp256k1-sha256-tr"));
    custody::execute(&world, custody::KEYS, &create).await;
    let path = json!({ "network": "bitcoin", "path": "0/7" });
    for bip32 in [Value::Null, path] {
        let mut body = with(custody::sign(&bip32.to_string()), "/bip32", bip32);
        body["taproot"] = json!({ "merkle_root": "11".repeat(32) });
        let operation = custody::publish(&world, &custody::key_path("btc", "/sign"), &body).await;
        let evidence = world.get(&custody::path(&operation, "/evidence")).await.ok();
        assert_holds(&verify(&evidence, &roots(&world).await), &ALL);
    }
}

#[tokio::test]
async fn evidence_of_an_unfinished_payment_holds_at_every_state() {
    let world = World::start().await;
    let operation = submit(&world, &payment("way")).await;
    let roots = roots(&world).await;
    let steps = [
        ("/approve", approval("alice"), &ALL[..5]),
        ("/approve", approval("bob"), &ALL[..7]),
        ("/execute", json!({}), &ALL[..7]),
        ("/publish", publication(), &ALL[..]),
    ];
    for (action, body, names) in steps {
        world.post(&path(&operation, action), &body).await.ok();
        let evidence = world.get(&path(&operation, "/evidence")).await.ok();
        assert_holds(&verify(&evidence, &roots), names);
    }
}

#[tokio::test]
async fn evidence_of_every_key_change_holds() {
    let world = World::ticking().await;
    let key_path = |action| custody::key_path("cold", action);
    let mut operations = vec![custody::create_key(&world, "cold").await];
    for (path, body) in [
        (key_path("/sign"), custody::sign("one")),
        (key_path("/refresh"), custody::refresh("2")),
        (key_path("/recover"), custody::recover("3")),
        (key_path("/reshare"), custody::reshare("4")),
        (key_path("/rotate"), custody::rotate("cold-2")),
    ] {
        operations.push(custody::publish(&world, &path, &body).await);
    }
    let roots = roots(&world).await;
    for operation in operations {
        for (export, names) in [
            ("/evidence", &["chain", "operation", "admission", "receipts", "key", "log"][..]),
            ("/audit-replay", &["chain", "operation", "log"]),
        ] {
            let Some(id) = operation["operation_id"].as_str() else { continue };
            let document = world.get(&format!("/v1/custody/operations/{id}{export}")).await.ok();
            assert_holds(&verify(&document, &roots), names);
        }
    }
}

#[tokio::test]
async fn audit_log_holds_and_discloses_nothing() {
    let world = World::start().await;
    let operation = publish(&world, &payment("audit")).await;
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert_holds(
        &verify(&audit, &roots(&world).await),
        &["form", "chain", "opened fields", "operation", "log"],
    );
    let opened: Vec<_> = audit["events"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|entry| entry["disclosures"].as_array().unwrap())
        .map(|opened| opened["path"].as_str().unwrap())
        .collect();
    assert_eq!(opened, Vec::<&str>::new());
}

#[tokio::test]
async fn evidence_fails_under_the_roots_of_another_deployment() {
    let (world, other) = (World::start().await, World::start().await);
    let operation = publish(&world, &payment("roots")).await;
    publish(&other, &payment("roots")).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let report = verify(&evidence, &roots(&other).await);
    let failed: Vec<_> = report
        .checks
        .iter()
        .filter(|check| matches!(check.status, Status::Fails(_)))
        .map(|check| check.name)
        .collect();
    assert_eq!(failed, ["admission", "receipts", "log", "statement"]);
}

/// Repeats the evaluation of event 1, gives another decision for event 3, and has no bundle for the others.
struct DifferentPolicy;

impl RerunPolicy for DifferentPolicy {
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String> {
        match evaluation.seq {
            1 => Ok(Vec::new()),
            3 => Ok(vec!["`DENY`".to_owned()]),
            _ => Err("no such bundle".to_owned()),
        }
    }
}

#[tokio::test]
async fn bundle_that_decides_otherwise_is_found_and_skipped_evaluations_are_reported() {
    let (world, evidence) = published_evidence(&payment("otherwise")).await;
    let report = gateway_evidence::verify(
        vec![evidence],
        &EvidenceReader { rerun: Some(&DifferentPolicy), ..reader(&roots(&world).await) },
    );
    let found: Vec<_> = report.findings().map(ToString::to_string).collect();
    assert_eq!(found, ["/events/2/event/change/policy: `DENY`"]);
    let not_run = report.checks.iter().find(|check| check.name == "policy not run again").unwrap();
    assert!(
        matches!(&not_run.status, Status::NotChecked(why) if why.contains("event 4: no such bundle")),
        "{not_run:?}"
    );
}

/// The report must not count approvals that were waived as given.
#[tokio::test]
async fn key_created_with_waived_approvals_holds_and_the_waiver_is_reported() {
    let world = World::ticking().await;
    let creation = custody::submit(&world, "/v1/custody/keys", &custody::key("cold")).await;
    let early = custody::admit(&world, &custody::key_path("cold", "/sign"), &custody::sign("early")).await;
    world.post_nothing(&custody::path(&early, "/execute")).await.ok();
    let evidence = world.get(&custody::path(&creation, "/evidence")).await.ok();
    let report = verify(&evidence, &roots(&world).await);
    assert_holds(&report, &["chain", "operation", "policy decisions", "admission", "receipts", "key", "log"]);
    let admission = report.checks.iter().find(|check| check.name == "admission").unwrap();
    assert_eq!(admission.status, Status::Holds("signed with 0 approvals, of 0 required".to_owned()));
}
