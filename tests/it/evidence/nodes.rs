//! Evidence compared with the nodes' own logs: a share that a node released and the gateway does not show is found.

use super::forged::Forgery;
use super::{not_checked, reader};
use crate::harness::custody;
use crate::harness::samples::{admit, path, payment, publish};
use crate::harness::world::World;
use gateway_domain::dsse::pre_authentication_encoding;
use gateway_domain::ids::Hex32;
use gateway_domain::log::Frontier;
use gateway_domain::node_log::{HEAD_PAYLOAD_TYPE, LogEntry, LogHead, ReleasedShare, SignedLogHead};
use gateway_domain::receipt::{Chain, PAYLOAD_TYPE, ReceiptKind, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_evidence::node_logs::{FORMAT, Header};
use gateway_evidence::verify::Status;
use gateway_evidence::{EvidenceReader, NodeLogFile, NodeLogs, Report, Roots, Verdict, audit};
use gateway_fleet::open_file;
use gateway_seal::at_rest::{Kek, SecretId, open_share};
use gateway_seal::kek_source::KekSource;
use gateway_seal::node_key::NodeSecret;
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeSet;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The logs of all nodes as they are now, and the roots.
pub(super) struct Logs {
    nodes: Vec<(ParticipantIndex, Vec<LogEntry>, SignedLogHead)>,
    roots: Roots,
}

fn kek(world: &World) -> Arc<Kek> {
    let KekSource::File(key) = &world.settings.nodes.key else { panic!("a key in a file") };
    Arc::new(Kek::from_file(key).unwrap())
}

impl Logs {
    pub(super) async fn of(world: &World, nodes: &[u16]) -> Self {
        let mut read = vec![];
        for node in nodes.iter().copied().map(ParticipantIndex) {
            let file = open_file(&world.settings.nodes.directory, node, &kek(world)).await.unwrap();
            let head = file.log_head(EpochMs(1)).await.unwrap();
            read.push((node, file.log_entries(0, 1000).await.unwrap(), head));
            file.close().await;
        }
        Self { nodes: read, roots: Roots::new(world.roots().await).unwrap() }
    }

    pub(super) fn text(&self, index: usize) -> String {
        let (participant, entries, head) = &self.nodes[index];
        let header = json!(Header { format: FORMAT.to_owned(), participant: *participant });
        let lines = entries.iter().map(|entry| json!(entry)).chain([json!(head)]);
        [header].into_iter().chain(lines).map(|line| format!("{line}\n")).collect()
    }

    pub(super) fn read(&self) -> NodeLogs {
        let file = |index| NodeLogFile::read(self.text(index).as_bytes()).unwrap();
        NodeLogs::new((0..self.nodes.len()).map(file).collect(), &self.roots).unwrap()
    }

    fn verify(&self, evidence: &Value) -> Report {
        let nodes = self.read();
        let reader = EvidenceReader { nodes: Some(&nodes), ..reader(&self.roots) };
        let document = gateway_evidence::parse(evidence.to_string().as_bytes()).unwrap();
        gateway_evidence::verify(vec![document], &reader)
    }

    /// A corrupted node alters its log and signs the new head.
    async fn rewrite(&mut self, world: &World, index: usize, alter: impl FnOnce(&mut Vec<LogEntry>)) {
        let (participant, entries, head) = &mut self.nodes[index];
        alter(entries);
        let mut frontier = Frontier::default();
        entries.iter().for_each(|entry| drop(frontier.append(entry.leaf().unwrap())));
        let (size, root) = (frontier.n_leaves(), frontier.root());
        let new = LogHead { participant: *participant, size, root, at_ms: EpochMs(2) };
        let signature =
            secret(world, *participant).await.sign_statement(HEAD_PAYLOAD_TYPE, &new.payload().unwrap());
        *head = SignedLogHead { head: new, signature: Signature::new(signature) };
    }
}

/// The identity secret of a node, read from its database.
async fn secret(world: &World, node: ParticipantIndex) -> NodeSecret {
    let path = world.settings.nodes.directory.join(format!("node-{node}.db"));
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).read_only(true);
    let mut conn = options.connect().await.unwrap();
    let sealed: Vec<u8> =
        sqlx::query_scalar("SELECT identity_seed FROM node").fetch_one(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    let name = format!("node-{node}");
    let id = SecretId { node: &name, key_id: "identity", epoch: "", index: node.0 };
    let seed = open_share(&kek(world), &id, &sealed).unwrap();
    NodeSecret::from_seed(node.0, &Zeroizing::new(seed.as_slice().try_into().unwrap()))
}

fn status<'r>(report: &'r Report, name: &str) -> &'r Status {
    &report.checks.iter().find(|check| check.name == name).unwrap().status
}

/// The faults of the comparison with the logs.
#[track_caller]
fn found(report: &Report) -> Vec<String> {
    match status(report, "released shares") {
        Status::Fails(findings) => findings.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_holds(report: &Report) -> &str {
    assert!(matches!(status(report, "node logs"), Status::Holds(_)), "{report:#?}");
    match status(report, "released shares") {
        Status::Holds(seen) => seen,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_not_checked(report: &Report, part: &str) {
    let why = not_checked(report);
    assert!(
        why.iter().any(|(name, why)| *name == "released shares" && why.contains(part)),
        "{part}: {why:?}"
    );
}

/// A published payment with its evidence.
async fn paid(key: &str) -> (World, Value, Value) {
    let world = World::start().await;
    let operation = publish(&world, &payment(key)).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    (world, operation, evidence)
}

/// The positions at which the log has a share for the operation.
fn shares(logs: &Logs, index: usize) -> Vec<usize> {
    let is_share = |entry: &LogEntry| matches!(entry, LogEntry::Receipt { share: Some(_), .. });
    logs.nodes[index]
        .1
        .iter()
        .enumerate()
        .filter(|(_, entry)| is_share(entry))
        .map(|(index, _)| index)
        .collect()
}

#[tokio::test]
async fn evidence_agrees_with_the_logs_of_its_nodes() {
    let (world, _, evidence) = paid("logged").await;
    let logs = Logs::of(&world, &[0, 1, 2]).await;
    let seen = assert_holds(&logs.verify(&evidence)).to_owned();
    assert_eq!(
        seen,
        "11 receipts are at their positions; every share released for the operation is shown, 0 of packages that were not completed"
    );
    // Two of three nodes are enough: the third alone could not sign.
    assert_holds(&Logs::of(&world, &[0, 2]).await.verify(&evidence));
    let alone = Logs::of(&world, &[2]).await.verify(&evidence);
    assert_not_checked(&alone, "the logs of nodes 0, 1 are missing, not sound or were rolled back");
}

#[tokio::test]
async fn evidence_of_key_changes_and_failures_agrees_with_the_logs() {
    let world = World::ticking().await;
    let mut paths = vec![custody::path(
        &custody::publish(&world, custody::KEYS, &custody::key("cold")).await,
        "/evidence",
    )];
    for (action, body) in [
        ("/refresh", custody::refresh("2")),
        ("/reshare", custody::reshare("3")),
        ("/rotate", custody::rotate("cold-2")),
    ] {
        let changed = custody::publish(&world, &custody::key_path("cold", action), &body).await;
        paths.push(custody::path(&changed, "/evidence"));
    }
    let failed = admit(&world, &payment("refused")).await;
    world.faults.set_rejecting(true);
    world.post_nothing(&path(&failed, "/execute")).await.fails(409, "operation_failed");
    paths.push(path(&failed, "/evidence"));
    let mut logs = Logs::of(&world, &[0, 1, 2, 3]).await;
    for path in paths {
        let evidence = world.get(&path).await.ok();
        assert_holds(&logs.verify(&evidence));
    }
    logs.nodes.truncate(1);
    let evidence = world.get(&path(&failed, "/evidence")).await.ok();
    assert_not_checked(&logs.verify(&evidence), "1, 2");
}

/// The attacker ends the history of a signed payment before the signature, to keep it.
#[tokio::test]
async fn signature_that_the_evidence_does_not_show_is_found() {
    let world = World::start().await;
    let operation = publish(&world, &payment("hidden")).await;
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    let logs = Logs::of(&world, &[0, 1, 2]).await;
    let positions: Vec<_> = [0, 1].map(|index| shares(&logs, index)).into_iter().flatten().collect();
    let failed = json!({
        "at_ms": forgery.forger.first("published")["at_ms"],
        "change": { "type": "failed", "failure": { "code": "expired", "detail": "", "culprits": [] }, "receipts": [], "policy": null },
    });
    let failed = |cut: usize| {
        let failed = failed.clone();
        move |events: &mut Vec<Value>| {
            events.truncate(cut);
            events.push(failed);
        }
    };
    let cut = forgery.forger.index_of("receipt_materialized") + 1;
    let report = logs.verify(&forgery.forger.with_events(failed(cut)).await);
    let expected: Vec<_> = (0..)
        .zip(&positions)
        .map(|(node, at)| format!("/nodes/{node}/{at}: the node released a share of attempt 1 of the signature, and the evidence does not show it"))
        .collect();
    assert_eq!(found(&report), expected);
    // The attacker admits that the ceremony began, and claims that it was aborted: both shares make a signature.
    let cut = forgery.forger.index_of("ceremony_started") + 1;
    let aborted = json!({
        "at_ms": forgery.forger.first("published")["at_ms"],
        "change": { "type": "aborted", "failure": { "code": "expired", "detail": "", "culprits": [] } },
    });
    let aborted = move |events: &mut Vec<Value>| {
        events.truncate(cut);
        events.push(aborted);
    };
    let report = logs.verify(&forgery.forger.with_events(aborted.clone()).await);
    let signed = "/events: nodes 0, 1 released shares of a signature that the evidence does not show";
    assert_eq!(found(&report), [signed]);
    // One share could be completed by a node whose log is missing.
    let aborted = forgery.forger.with_events(aborted).await;
    assert_not_checked(&Logs::of(&world, &[0]).await.verify(&aborted), "nodes 1, 2");
    assert_not_checked(&Logs::of(&world, &[0, 2]).await.verify(&aborted), "nodes 1 are missing");
    // An earlier state of the true evidence is not a lie.
    for last in ["admission_applied", "receipt_materialized", "ceremony_started"] {
        let cut = forgery.forger.index_of(last) + 1;
        let earlier = forgery.forger.with_events(|events| events.truncate(cut)).await;
        assert_not_checked(&logs.verify(&earlier), "released a share of attempt 1 of the signature");
    }
    let earlier = forgery.forger.with_events(|events| events.truncate(3)).await;
    assert_not_checked(&logs.verify(&earlier), "acted on a decision");
}

#[tokio::test]
async fn receipts_beyond_or_beside_the_log_are_found() {
    let world = World::start().await;
    publish(&world, &payment("first")).await;
    let mut logs = Logs::of(&world, &[0, 1, 2]).await;
    let operation = publish(&world, &payment("second")).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let size = logs.nodes[0].1.len();
    let report = logs.verify(&evidence);
    assert_eq!(report.verdict(), Verdict::Fails);
    let of_first: Vec<_> =
        found(&report).into_iter().filter(|found| found.contains("/receipts/0/")).collect();
    let expected = format!(": the node's log has only {size} entries");
    assert!(of_first.len() == 4 && of_first.iter().all(|found| found.ends_with(&expected)), "{of_first:?}");

    // A node that signed other entries at these positions, under a valid head.
    let full = Logs::of(&world, &[0, 1, 2]).await;
    let other = full.nodes[0].1[..size].to_vec();
    logs.rewrite(&world, 0, |entries| {
        for (index, entry) in (entries.len()..).zip(other) {
            let mut entry = entry;
            if let LogEntry::Receipt { log_index, .. } = &mut entry {
                *log_index = u64::try_from(index).unwrap();
            }
            entries.push(entry);
        }
    })
    .await;
    let found = found(&logs.verify(&evidence));
    assert!(
        found.iter().any(|found| found.ends_with("the node's log has another entry at this position")),
        "{found:?}"
    );
}

/// A corrupted node signs whatever its log says; the log still has to agree with the evidence.
#[tokio::test]
async fn entries_that_contradict_the_evidence_are_found() {
    let (world, _, evidence) = paid("contradicted").await;
    type Alter = fn(&mut LogEntry);
    let cases: [(Alter, &str); 6] = [
        (
            |entry| {
                if let LogEntry::Receipt { share: Some(share), .. } = entry {
                    share.signed_digest = Hex32::ZERO
                }
            },
            "the entry's share is not the one that the receipt states",
        ),
        (
            |entry| {
                if let LogEntry::Receipt { share: Some(share), .. } = entry {
                    share.key_id.0 = Hex32::ZERO
                }
            },
            "the node signed another digest, or with another key, than was admitted",
        ),
        (
            |entry| {
                if let LogEntry::Receipt { share, .. } = entry {
                    *share = None
                }
            },
            "the entry does not state what the node signed",
        ),
        (
            |entry| {
                if let LogEntry::Receipt { statement, .. } = entry {
                    statement.admission_hash = Hex32::ZERO
                }
            },
            "the node acted on another decision than the one shown",
        ),
        (
            |entry| {
                if let LogEntry::Receipt { statement, .. } = entry {
                    statement.attempt = 2
                }
            },
            "the node's log has another entry at this position",
        ),
        (|entry| *entry = LogEntry::Lost { log_index: entry.log_index() }, "the logs of nodes"),
    ];
    for (alter, expected) in cases {
        let mut logs = Logs::of(&world, &[0, 1, 2]).await;
        let at = shares(&logs, 0)[0];
        logs.rewrite(&world, 0, |entries| alter(&mut entries[at])).await;
        let report = logs.verify(&evidence);
        if expected.starts_with("the logs") {
            // One rolled-back node of three cannot hide a signature of two.
            assert!(matches!(status(&report, "released shares"), Status::Holds(_)), "{report:#?}");
            logs.rewrite(&world, 1, |entries| {
                let last = entries.len() - 1;
                entries[last] = LogEntry::Lost { log_index: u64::try_from(last).unwrap() };
            })
            .await;
            assert_not_checked(&logs.verify(&evidence), "the logs of nodes 0, 1");
        } else {
            let found = found(&report);
            assert!(found.iter().any(|found| found.contains(expected)), "{expected}: {found:?}");
        }
    }
}

#[tokio::test]
async fn further_share_of_the_operation_is_found_unless_its_attempt_is_shown_as_lost() {
    let world = World::start().await;
    let operation = publish(&world, &payment("further")).await;
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    let mut logs = Logs::of(&world, &[0, 1, 2]).await;
    let at = shares(&logs, 1)[0];
    let further = logs.nodes[1].1[at].clone();
    // Node 2, which is not among the signers, signed another package in attempt 2.
    logs.rewrite(&world, 2, |entries| entries.push(of_another_package(&further, 2, 2, entries.len()))).await;
    let report = logs.verify(&forgery.evidence);
    assert!(
        found(&report)[0].contains("the node released a share of attempt 2 of the signature"),
        "{report:#?}"
    );
    // With attempts 1 and 2 shown as lost, the share is explained, although not the receipts of attempt 1 any more.
    let started = forgery.forger.index_of("ceremony_started");
    let lost = |attempt: u32| {
        json!({
            "at_ms": forgery.forger.first("ceremony_started")["at_ms"],
            "change": { "type": "attempt_lost", "attempt": attempt, "reason": "a node restarted" },
        })
    };
    let (one, two) = (lost(1), lost(2));
    let alter = |events: &mut Vec<Value>| {
        events.insert(started + 1, two);
        events.insert(started + 1, one);
    };
    let report = logs.verify(&forgery.forger.with_events(alter).await);
    let found = found(&report);
    assert!(!found.iter().any(|found| found.contains("released a share of attempt 2")), "{found:?}");
}

/// The entry at this position for a share of another package of the same operation.
fn of_another_package(like: &LogEntry, participant: u16, attempt: u32, position: usize) -> LogEntry {
    let LogEntry::Receipt { statement, share: Some(share), .. } = like.clone() else { panic!() };
    let chain = Chain {
        admission_hash: statement.admission_hash,
        operation_id: statement.operation_id,
        participant: ParticipantIndex(participant),
    };
    let (signed_digest, package_hash) = (share.signed_digest, Hex32::ZERO);
    let kind = ReceiptKind::Signed { attempt, signed_digest, package_hash };
    let share = ReleasedShare { package_hash, ..share };
    let log_index = u64::try_from(position).unwrap();
    LogEntry::Receipt { log_index, statement: chain.statement(&kind).unwrap(), share: Some(share) }
}

/// Two replicas of a gateway, or one and its successor, can make two packages for one attempt.
#[tokio::test]
async fn share_of_another_package_is_explained_by_the_signature_unless_it_completes_a_second_one() {
    let (world, _, evidence) = paid("beside").await;
    let mut logs = Logs::of(&world, &[0, 1, 2]).await;
    let share = logs.nodes[1].1[shares(&logs, 1)[0]].clone();
    logs.rewrite(&world, 2, |entries| entries.push(of_another_package(&share, 2, 1, entries.len()))).await;
    assert!(assert_holds(&logs.verify(&evidence)).ends_with("1 of packages that were not completed"));
    logs.rewrite(&world, 1, |entries| entries.push(of_another_package(&share, 1, 1, entries.len()))).await;
    let second = "/events: nodes 1, 2 released shares of a signature that the evidence does not show";
    assert_eq!(found(&logs.verify(&evidence)), [second]);
}

#[tokio::test]
async fn unsound_logs_fail_and_rolled_back_logs_are_not_checked() {
    let (world, _, evidence) = paid("unsound").await;
    let mut logs = Logs::of(&world, &[0, 1, 2]).await;
    logs.nodes[0].1.remove(3);
    let report = logs.verify(&evidence);
    assert!(matches!(status(&report, "node logs"), Status::Fails(_)), "{report:#?}");
    assert_eq!(report.verdict(), Verdict::Fails);
    let mut logs = Logs::of(&world, &[0, 1, 2]).await;
    logs.rewrite(&world, 0, |entries| {
        let (log_index, participant) = (u64::try_from(entries.len()).unwrap(), ParticipantIndex(0));
        entries.push(LogEntry::Lost { log_index });
        let (lost_from, log_index) = (log_index, log_index + 1);
        entries.push(LogEntry::Readmitted { log_index, participant, lost_from, at_ms: EpochMs(9) });
    })
    .await;
    let report = logs.verify(&evidence);
    assert!(matches!(status(&report, "node logs"), Status::NotChecked(_)), "{report:#?}");
    assert_eq!(report.verdict(), Verdict::NotChecked);
}

#[tokio::test]
async fn document_with_missing_pages_is_not_compared_with_the_logs() {
    let (world, _, mut evidence) = paid("pages").await;
    let logs = Logs::of(&world, &[0, 1, 2]).await;
    evidence["events"].as_array_mut().unwrap().remove(0);
    assert_not_checked(&logs.verify(&evidence), "the complete history is needed");
}

#[tokio::test]
async fn audit_names_each_operation_with_a_share_whose_evidence_is_not_given() {
    let world = World::start().await;
    let shown = publish(&world, &payment("shown")).await;
    let hidden = publish(&world, &payment("hidden")).await;
    let admitted = admit(&world, &payment("admitted")).await;
    let logs = Logs::of(&world, &[0, 1, 2]).await;
    let id = |operation: &Value| operation["operation_id"].as_str().unwrap().parse().unwrap();
    // The key's creation made shares too.
    let all: BTreeSet<_> = logs.read().operations().into_keys().collect();
    assert_eq!(all.len(), 4);
    let without = |operation| all.iter().copied().filter(|one| *one != id(operation)).collect();
    let report = audit(&logs.read(), &without(&hidden));
    let Status::Fails(findings) = status(&report, "operations shown") else { panic!("{report:?}") };
    let expected = format!(
        "the node released a share for operation `{}`, whose evidence was not given",
        hidden["operation_id"].as_str().unwrap()
    );
    assert_eq!((findings.len(), &findings[0].what), (1, &expected));
    let at = format!("/nodes/0/{}", shares(&logs, 0)[1]);
    assert_eq!(findings[0].at, at);
    // Nothing was released for an operation that is only admitted.
    assert_eq!(audit(&logs.read(), &without(&admitted)).verdict(), Verdict::NotChecked);
    assert_eq!(audit(&logs.read(), &all).verdict(), Verdict::Holds);
    assert_eq!(audit(&logs.read(), &without(&shown)).verdict(), Verdict::Fails);
}

/// A node that signs two statements for one position, or an earlier one, has a second log.
#[tokio::test]
async fn receipts_out_of_the_order_of_the_log_are_found() {
    let world = World::start().await;
    let operation = publish(&world, &payment("order")).await;
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    let receipts = |kind: &str| forgery.forger.first(kind)["change"]["receipts"].clone();
    let later = receipts("receipt_materialized")[0]["log_index"].as_u64().unwrap();
    let chain = Chain {
        admission_hash: serde_json::from_value(forgery.evidence["decision"]["admission_hash"].clone())
            .unwrap(),
        operation_id: serde_json::from_value(operation["operation_id"].clone()).unwrap(),
        participant: ParticipantIndex(0),
    };
    let statement = chain.statement(&ReceiptKind::Admitted).unwrap();
    let node = secret(&world, ParticipantIndex(0)).await;
    for (log_index, n_found) in [(later - 1, 0), (later, 1), (later + 1, 1)] {
        let signature = node.sign_statement(PAYLOAD_TYPE, &statement.payload(log_index).unwrap());
        let alter = |event: &mut Value| {
            let receipt = &mut event["change"]["receipts"][0];
            receipt["log_index"] = json!(log_index);
            receipt["node_signature"] = json!(Signature::new(signature));
        };
        let forged = forgery.forger.with_event("admission_applied", alter).await;
        let report = forgery.verify(&forged);
        let found: Vec<_> = report.findings().map(ToString::to_string).collect();
        assert_eq!(found.len(), n_found, "{found:?}");
        let expected = forgery
            .at("receipt_materialized", "/receipts/0/log_index: is not after the node's receipt before it");
        assert!(found.iter().all(|found| *found == expected), "{found:?}");
    }
}

/// The signed bytes of a head cannot be taken for those of another statement of the node.
#[test]
fn head_and_receipt_have_different_payload_types() {
    let payload = b"{}";
    assert_ne!(
        pre_authentication_encoding(HEAD_PAYLOAD_TYPE, payload),
        pre_authentication_encoding(PAYLOAD_TYPE, payload)
    );
}
