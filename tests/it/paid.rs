//! The facts `recipient.*`: what a policy learns of earlier payments, and gateways that invent them.
//!
//! The policy requires three approvals for a recipient that was never paid, and two for one that was.

use crate::evidence;
use crate::harness::bundles::{Site, key, paid_bundle, write_folder};
use crate::harness::cluster::Cluster;
use crate::harness::forged::Forger;
use crate::harness::process::{SIGN, post, publish_step, request};
use crate::harness::samples::{approval, path, payment, publication, submit, with};
use crate::harness::world::World;
use gateway_domain::dsse::Role;
use gateway_domain::ids::Hex32;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::{Roots, Verdict};
use gateway_policy::TrustPolicy;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use std::fs;
use std::path::Path;

fn payment_to(name: &str, recipient: &str) -> Value {
    with(payment(name), "/payment/to_account", json!(recipient))
}

async fn world() -> (Site, World) {
    let site = Site::new();
    site.offer(&paid_bundle(1, &key(1)));
    let (bundle, trust) = (site.path("bundle"), site.path("trust.json"));
    let paths =
        [("policy_bundle", bundle.to_str().unwrap()), ("policy_trust_roots", trust.to_str().unwrap())];
    let world = World::with(&paths).await;
    (site, world)
}

/// Submits a payment that Alice and Bob approve; returns the view.
async fn approved(world: &World, body: &Value) -> Value {
    let operation = submit(world, body).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    world.post(&path(&operation, "/approve"), &approval("bob")).await.ok()
}

/// The facts that the last evaluation of the operation read.
async fn facts(world: &World, view: &Value) -> Vec<Value> {
    let listed = format!("/v1/policy/decisions?operation_id={}", view["operation_id"].as_str().unwrap());
    let decisions = world.get(&listed).await.ok();
    decisions["decisions"][0]["facts"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn recipient_is_known_from_its_first_published_payment_on() {
    let (_site, world) = world().await;
    let first = approved(&world, &payment("first")).await;
    assert_eq!(
        (&first["state"], &first["approvals"]["missing"][0]["people"]),
        (&json!("pending_approval"), &json!(1))
    );
    let absent = json!({ "name": "recipient.paid_count", "value": null, "class": "proven" });
    assert_eq!(facts(&world, &first).await[0], absent);
    assert_eq!(world.post(&path(&first, "/approve"), &approval("dave")).await.ok()["state"], "admitted");
    world.post_nothing(&path(&first, "/execute")).await.ok();
    let unpublished = approved(&world, &payment("before it is published")).await;
    assert_eq!(unpublished["state"], "pending_approval", "its signature is disclosed to no one");
    world.post(&path(&first, "/publish"), &publication()).await.ok();

    let second = approved(&world, &payment("second")).await;
    assert_eq!(second["state"], "admitted", "{second}");
    assert_eq!(facts(&world, &second).await[0]["value"], "1");
    let other = approved(&world, &payment_to("other recipient", "acct-3")).await;
    assert_eq!(other["state"], "pending_approval");
    published(&world, &second).await;
    let third = approved(&world, &payment("third")).await;
    let read = facts(&world, &third).await;
    assert_eq!(read[0]["value"], "2");
    let first_ms: u64 = read[1]["value"].as_str().unwrap().parse().unwrap();
    let submitted_ms = first["submitted_at_ms"].as_u64().unwrap_or(u64::MAX);
    assert!(first_ms <= submitted_ms.saturating_add(60_000), "{first_ms} {submitted_ms}");
}

type Lie = (&'static str, fn(&mut Value));

/// What a gateway that has the log's key and the authority's can write into the decision's evaluation.
const LIES: [Lie; 6] = [
    ("another time", |policy| policy["facts"][1]["value"] = json!("1")),
    ("another number", |policy| policy["facts"][0]["value"] = json!("2")),
    ("no proof", |policy| policy["proven_by"] = json!([])),
    ("a proof twice", |policy| {
        let proof = policy["proven_by"][0].clone();
        policy["proven_by"].as_array_mut().unwrap().push(proof);
    }),
    ("another amount", |policy| policy["proven_by"][0]["intent"]["amount_minor"] = json!(1)),
    ("no signature", |policy| policy["proven_by"][0]["signature"] = json!("00".repeat(64))),
];

/// With KEEP_LIES, the documents are kept for the verifiers in other languages, as those of `evidence::lies` are.
pub(crate) fn keep(what: &str, roots: &RootsFile, documents: &[(Verdict, Value)]) {
    let Some(folder) = std::env::var_os("KEEP_LIES") else { return };
    let folder = Path::new(&folder).join(format!("{what} {}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("roots.json"), json!(roots).to_string()).unwrap();
    let line = |(verdict, document)| json!({ "verdict": verdict, "document": document }).to_string() + "\n";
    let lines: String = documents.iter().map(|(verdict, document)| line((verdict, document))).collect();
    fs::write(folder.join("told.jsonl"), lines).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_shows_that_the_facts_follow_from_the_earlier_payments() {
    let (_site, world) = world().await;
    let first = approved(&world, &payment("first")).await;
    world.post(&path(&first, "/approve"), &approval("dave")).await.ok();
    published(&world, &first).await;
    let second = approved(&world, &payment("second")).await;
    published(&world, &second).await;
    let document = world.get(&path(&second, "/evidence")).await.ok();
    let file = world.roots().await;
    let roots = Roots::new(file.clone()).unwrap();
    let report = evidence::verify(&document, &roots);
    evidence::assert_holds(&report, &["earlier payments", "chain", "operation"]);
    let mut documents = vec![(report.verdict(), document.clone())];
    let forger = Forger::new(&world, &document).await;
    let at = format!("/events/{}/event/change/policy/", forger.index_of("decision_signed"));
    for (what, lie) in LIES {
        let forged = forger.with_event("decision_signed", |event| lie(&mut event["change"]["policy"])).await;
        let report = evidence::verify(&forged, &roots);
        assert!(report.findings().any(|finding| finding.at.starts_with(&at)), "{what}: {report:#?}");
        documents.push((report.verdict(), forged));
    }
    keep("earlier payments", &file, &documents);
}

async fn published(world: &World, view: &Value) {
    world.post_nothing(&path(view, "/execute")).await.ok();
    world.post(&path(view, "/publish"), &publication()).await.ok();
}

/// What a gateway's database says of paid recipients.
fn tamper(folder: &Path, sql: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", folder.join("gateway.db").display());
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        let done = sqlx::query(sql).execute(&mut conn).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
        conn.close().await.unwrap();
    });
}

/// A cluster of processes under the policy.
fn cluster() -> Cluster {
    let mut cluster = Cluster::prepare(3, |port| port);
    let folder = cluster.folder().to_owned();
    let author = Hex32::new(key(1).verifying_key().to_bytes());
    let role = Role { role: "author".into(), threshold: 1, keys: [author].into() };
    let trust = TrustPolicy { documents: Vec::new(), roles: vec![role], revoked: [].into() };
    fs::write(folder.join("trust.json"), serde_json::to_vec(&trust).unwrap()).unwrap();
    write_folder(&folder.join("bundle"), &paid_bundle(9, &key(1)));
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    cluster.set_everywhere(&[("policy_trust_roots", &at("trust.json"))]);
    cluster.gateway_settings.insert("policy_bundle", at("bundle"));
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    cluster
}

/// Submits a payment that these subjects approve. Returns its path, and the answer to the last approval.
fn pay(address: &str, body: &Value, subjects: &[&str]) -> (String, u16, Value) {
    let submitted = post(address, SIGN, Some(body)).unwrap();
    let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    let approve = |subject: &&str| {
        request(address, "POST", &format!("{path}/approve"), Some(&approval(subject))).unwrap()
    };
    let mut answers: Vec<_> = subjects.iter().map(approve).collect();
    let (status, answer) = answers.pop().unwrap();
    (path, status, answer)
}

/// The gateway is a real one whose record of paid recipients is altered: it asks for a decision and states what it believes.
#[test]
fn gateway_that_invents_an_earlier_payment_gets_no_decision() {
    let cluster = cluster();
    let address = cluster.address();
    let (first, status, answer) = pay(address, &payment_to("first", "acct-2"), &["alice", "bob", "dave"]);
    assert_eq!((status, &answer["state"]), (200, &json!("admitted")), "{answer}");
    post(address, &format!("{first}/execute"), None).unwrap();
    let (publish, body) = publish_step();
    post(address, &format!("{first}{publish}"), body.as_ref()).unwrap();
    let (_, status, answer) = pay(address, &payment_to("second", "acct-2"), &["alice", "bob"]);
    assert_eq!((status, &answer["state"]), (200, &json!("admitted")), "{answer}");

    tamper(cluster.folder(), "UPDATE paid SET recipient = 'acct-3'");
    let (_, status, answer) = pay(address, &payment_to("third", "acct-3"), &["alice", "bob"]);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.to_string().contains("is no payment to this recipient"), "{answer}");
    // Without the invention it is a new recipient, whom a third approval admits; the other one is new to this gateway again.
    tamper(cluster.folder(), "UPDATE paid SET recipient = 'acct-4'");
    let (_, status, answer) = pay(address, &payment_to("fourth", "acct-3"), &["alice", "bob", "dave"]);
    assert_eq!((status, &answer["state"]), (200, &json!("admitted")), "{answer}");
    let (_, status, answer) = pay(address, &payment_to("fifth", "acct-2"), &["alice", "bob"]);
    assert_eq!((status, &answer["state"]), (200, &json!("pending_approval")), "{answer}");
    cluster.stop();
}
