//! Hostile logs: altered, cut off, reordered, of another node, and with heads that do not agree.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::*;
use crate::roots::{FORMAT as ROOTS, RootsFile};
use ed25519_dalek::{Signer as _, SigningKey};
use gateway_domain::dsse::pre_authentication_encoding;
use gateway_domain::ed25519::Signature;
use gateway_domain::ids::KeyId;
use gateway_domain::node_log::{HEAD_PAYLOAD_TYPE, LogHead};
use gateway_domain::receipt::{Chain, ReceiptKind};
use gateway_domain::time::EpochMs;

const NODE: ParticipantIndex = ParticipantIndex(0);

fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

fn key(node: ParticipantIndex) -> SigningKey {
    SigningKey::from_bytes(&[u8::try_from(node.0).unwrap() + 1; 32])
}

fn roots() -> Roots {
    let public = |node| (node, Hex32::new(key(node).verifying_key().to_bytes()));
    Roots::new(RootsFile {
        format: ROOTS.to_owned(),
        authorities: vec![Hex32::new(key(NODE).verifying_key().to_bytes())],
        authority_threshold: None,
        nodes: [public(NODE), public(ParticipantIndex(1))].into(),
        logs: vec![],
        keys: BTreeMap::new(),
        documents: vec![],
        bundles: vec![],
        facts: BTreeMap::new(),
        approvers: None,
        signed_approvals: None,
    })
    .unwrap()
}

fn entry(log_index: u64) -> LogEntry {
    let operation_id = OperationId(hex32(u8::try_from(log_index).unwrap()));
    let chain = Chain { admission_hash: hex32(11), operation_id, participant: NODE };
    let (signed_digest, package_hash) = (hex32(7), hex32(8));
    let kind = ReceiptKind::Signed { attempt: 1, signed_digest, package_hash };
    let share = Some(ReleasedShare { key_id: KeyId(hex32(4)), signed_digest, package_hash });
    LogEntry::Receipt { log_index, statement: chain.statement(&kind).unwrap(), share }
}

fn entries(n: u64) -> Vec<LogEntry> {
    (0..n).map(entry).collect()
}

fn signed(head: LogHead, by: ParticipantIndex) -> SignedLogHead {
    let bytes = pre_authentication_encoding(HEAD_PAYLOAD_TYPE, &head.payload().unwrap());
    SignedLogHead { head, signature: Signature::new(key(by).sign(&bytes).to_bytes()) }
}

/// The node's signed head over these entries.
fn head_of(entries: &[LogEntry]) -> SignedLogHead {
    let mut frontier = Frontier::default();
    entries.iter().for_each(|entry| drop(frontier.append(entry.leaf().unwrap())));
    let (size, root) = (frontier.n_leaves(), frontier.root());
    signed(LogHead { participant: NODE, size, root, at_ms: EpochMs(size) }, NODE)
}

fn text(entries: &[LogEntry], heads: &[SignedLogHead]) -> String {
    let header = Header { format: FORMAT.to_owned(), participant: NODE };
    let line = |value: Value| format!("{value}\n");
    let mut text = line(serde_json::to_value(header).unwrap());
    entries.iter().for_each(|entry| text += &line(serde_json::to_value(entry).unwrap()));
    heads.iter().for_each(|head| text += &line(serde_json::to_value(head).unwrap()));
    text
}

fn read(entries: &[LogEntry], heads: &[SignedLogHead]) -> NodeLogs {
    let file = NodeLogFile::read(text(entries, heads).as_bytes()).unwrap();
    NodeLogs::new(vec![file], &roots()).unwrap()
}

fn findings(entries: &[LogEntry], heads: &[SignedLogHead]) -> Vec<String> {
    let logs = read(entries, heads);
    assert_eq!(logs.logs[&NODE].is_sound, logs.findings.is_empty());
    assert!(logs.unchecked.is_empty());
    logs.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn log_under_its_newest_head_and_earlier_heads_is_sound() {
    for n in 1..9 {
        let all = entries(n);
        let heads: Vec<_> = (0..=all.len()).rev().map(|size| head_of(&all[..size])).collect();
        assert_eq!(findings(&all, &heads), [""; 0], "{n}");
    }
    assert_eq!(findings(&[], &[head_of(&[])]), [""; 0], "a new node");
}

#[test]
fn altered_dropped_moved_or_added_entries_are_found() {
    let all = entries(5);
    let head = [head_of(&all)];
    let other_root = "/nodes/0: the entries lead to another root than the head of 5 entries";
    let mut altered = all.clone();
    let LogEntry::Receipt { share: Some(share), .. } = &mut altered[2] else { panic!() };
    share.signed_digest = hex32(9);
    assert_eq!(findings(&altered, &head), [other_root]);
    let mut hidden = all.clone();
    let LogEntry::Receipt { share, .. } = &mut hidden[2] else { panic!() };
    *share = None;
    assert_eq!(findings(&hidden, &head), [other_root]);
    let mut replaced = all.clone();
    replaced[2] = entry(9);
    assert_eq!(findings(&replaced, &head), ["/nodes/0/2: the entry states the position 9", other_root]);
    let mut swapped = all.clone();
    swapped.swap(1, 2);
    assert_eq!(findings(&swapped, &head).len(), 3);
    let mut dropped = all.clone();
    dropped.remove(2);
    let found = findings(&dropped, &head);
    assert!(
        found.contains(&"/nodes/0: the newest head is of 5 entries, and the file has 4".to_owned()),
        "{found:?}"
    );
    assert_eq!(findings(&all[..4], &head), ["/nodes/0: the newest head is of 5 entries, and the file has 4"]);
    assert_eq!(
        findings(&entries(6), &head),
        ["/nodes/0: the newest head is of 5 entries, and the file has 6"],
        "entries that no head covers"
    );
}

#[test]
fn heads_that_are_missing_forged_or_inconsistent_are_found() {
    let all = entries(5);
    let valid = head_of(&all);
    assert_eq!(findings(&all, &[]), ["/nodes/0: the log has no head that its node signed"]);
    // Two heads of one size.
    let other = signed(LogHead { root: hex32(1), ..valid.head }, NODE);
    assert_eq!(
        findings(&all, &[valid.clone(), other]),
        ["/nodes/0: the entries lead to another root than the head of 5 entries"]
    );
    // An earlier head of another history.
    let mut rewritten = entries(3);
    rewritten[1] = LogEntry::Lost { log_index: 1 };
    assert_eq!(
        findings(&all, &[head_of(&rewritten), valid.clone()]),
        ["/nodes/0: the entries lead to another root than the head of 3 entries"]
    );
    // The head of another node, and one that another node signed.
    let others = signed(LogHead { participant: ParticipantIndex(1), ..valid.head }, ParticipantIndex(1));
    let renamed = signed(valid.head, ParticipantIndex(1));
    for forged in [others, renamed] {
        assert_eq!(
            findings(&all, &[valid.clone(), forged]),
            ["/nodes/0/heads/1: the head is not signed by this node"]
        );
    }
}

#[test]
fn entries_of_another_node_are_found() {
    let chain = Chain {
        admission_hash: hex32(11),
        operation_id: OperationId(hex32(1)),
        participant: ParticipantIndex(1),
    };
    let statement = chain.statement(&ReceiptKind::Admitted).unwrap();
    let others = [LogEntry::Receipt { log_index: 0, statement, share: None }];
    assert_eq!(findings(&others, &[head_of(&others)]), ["/nodes/0/0: the entry is another node's"]);
}

#[test]
fn log_of_a_node_that_is_not_in_the_roots_is_found() {
    let header = Header { format: FORMAT.to_owned(), participant: ParticipantIndex(7) };
    let text = format!("{}\n", serde_json::to_value(header).unwrap());
    let file = NodeLogFile::read(text.as_bytes()).unwrap();
    let logs = NodeLogs::new(vec![file], &roots()).unwrap();
    assert_eq!(logs.findings[0].to_string(), "/nodes/7: the roots have no key for this node");
}

#[test]
fn rollback_is_reported_as_not_checked_and_explains_only_heads_after_it() {
    let before = entries(5);
    let mut after = entries(3);
    after.extend([LogEntry::Lost { log_index: 3 }, LogEntry::Lost { log_index: 4 }]);
    let (lost_from, at_ms) = (3, EpochMs(1));
    after.push(LogEntry::Readmitted { log_index: 5, participant: NODE, lost_from, at_ms });
    let heads = [head_of(&before), head_of(&before[..2]), head_of(&after)];
    let logs = read(&after, &heads);
    assert_eq!(logs.findings, []);
    assert_eq!(
        logs.unchecked,
        [
            "node 0: the entries lead to another root than the head of 5 entries: a rollback lost entries from 3 on",
            "node 0: a rollback lost 2 entries of its log"
        ]
    );
    // A head from before the lost part must still match.
    let mut rewritten = entries(2);
    rewritten[1] = LogEntry::Lost { log_index: 1 };
    let logs = read(&after, &[head_of(&rewritten), head_of(&after)]);
    assert_eq!(logs.findings.len(), 1);
}

#[test]
fn file_that_is_not_a_log_is_refused_with_its_line() {
    let valid = text(&entries(1), &[head_of(&entries(1))]);
    let long = format!("{valid}{{\"x\":\"{}\"}}\n", "x".repeat(20_000));
    let cases = [
        (String::new(), "line 1"),
        (valid.replace("/v1", "/v2"), "line 1"),
        (valid.trim_end().to_owned(), "line 3"),
        (valid.replacen("\"log_index\":0", "\"log_index\":0,\"log_index\":0", 1), "line 2"),
        (valid.replacen("\"log_index\":0", "\"log_index\":-1", 1), "line 2"),
        (valid.replacen("\"type\":\"receipt\"", "\"type\":\"other\"", 1), "line 2"),
        (valid.replacen("\"type\":\"receipt\"", "\"type\":\"receipt\",\"x\":1", 1), "line 2"),
        (long, "line 4"),
    ];
    for (text, line) in cases {
        let refused = NodeLogFile::read(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with(line), "{line}: {refused}");
    }
    let file = || NodeLogFile::read(valid.as_bytes()).unwrap();
    assert!(matches!(NodeLogs::new(vec![file(), file()], &roots()), Err(NodeLogError::Twice(NODE))));
}
