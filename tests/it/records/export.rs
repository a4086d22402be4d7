//! `decisions export`.

use super::decisions::{CREDENTIALS, RecordedDecisions};
use crate::canaries::contains;
use crate::harness::process::{error_line, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The text at this pointer of each line; empty if it has none.
fn texts<'a>(lines: &'a [Value], pointer: &str) -> Vec<&'a str> {
    lines.iter().map(|line| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default()).collect()
}

#[test]
fn every_decision_is_exported_once_beside_a_running_gateway() {
    let recorded = RecordedDecisions::record();
    let lines = recorded.export(&[]);
    let mut by_moment = BTreeMap::new();
    for line in &lines {
        let moment =
            format!("{} {}", line["place"].as_str().unwrap(), line["input"]["moment"].as_str().unwrap());
        let decision = line["outcome"]["decision"].as_str().unwrap();
        *by_moment.entry(format!("{moment} {decision}")).or_insert(0) += 1;
    }
    // Three key creations, two payments, one custody signature: six submissions with two approvals each; one admission is denied.
    let expected = BTreeMap::from([
        ("operation submit ALLOW".to_owned(), 6),
        ("operation approval ALLOW".to_owned(), 12),
        ("operation admission ALLOW".to_owned(), 5),
        ("operation admission DENY".to_owned(), 1),
        ("refusal submit DENY".to_owned(), 1),
        ("refusal approval ALLOW".to_owned(), 1),
        ("preview preview ALLOW".to_owned(), 1),
        ("preview preview DENY".to_owned(), 1),
    ]);
    assert_eq!(by_moment, expected);
    assert!(lines.iter().all(|line| line["intact"] == true), "{lines:#?}");
    assert!(lines.iter().all(|line| line["input"]["intent_hash"].as_str().unwrap().len() == 64));
    let denied: Vec<_> =
        lines.iter().filter(|line| line["operation_id"] == recorded.denied.as_str()).collect();
    assert_eq!(denied.last().unwrap()["input"]["moment"], "admission");
    assert_eq!(denied.last().unwrap()["input"]["approvals"].as_array().unwrap().len(), 2);
    assert_eq!(lines.iter().filter(|line| line["operation_id"] == recorded.paid.as_str()).count(), 5);

    let mut cursors = texts(&lines, "/cursor");
    let all = cursors.clone();
    cursors.dedup();
    assert_eq!(cursors, all, "each line has a cursor of its own");
    for n_before in [1, 7, lines.len() - 1, lines.len()] {
        let after = recorded.export(&["--after", all[n_before - 1]]);
        assert_eq!(after, lines[n_before..]);
    }
    assert_eq!(recorded.export(&["--limit", "3"]), lines[..3]);
    assert_eq!(recorded.export(&["--after", all[2], "--limit", "0"]), [] as [Value; 0]);
}

#[test]
fn decision_export_contains_no_credentials() {
    let recorded = RecordedDecisions::record();
    let lines = recorded.export(&[]);
    let text = json!(lines).to_string();
    for name in ["token_jti", "cert_sha256"] {
        assert!(text.contains(name), "{name}");
    }
    for canary in CREDENTIALS {
        assert!(!text.contains(canary), "{canary}");
    }
    for file in ["gateway.db", "gateway.db-wal"] {
        let stored = std::fs::read(recorded.folder.path().join(file)).unwrap();
        for canary in CREDENTIALS {
            assert!(!contains(&stored, canary), "{canary} in {file}");
        }
    }
}

#[test]
fn unreadable_input_is_a_one_line_error() {
    let recorded = RecordedDecisions::record();
    let missing = tempfile::tempdir().unwrap();
    let err = error_line(run(missing.path(), &[], &["decisions", "export"]), 1);
    assert!(err.contains("does not exist"), "{err}");
    let (code, _, err) = recorded.run(&["decisions", "export", "--after", "x"]);
    assert_eq!(code, 2);
    assert!(err.contains("three parts separated by dots"), "{err}");
}
