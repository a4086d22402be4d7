//! `policy replay`: recorded decisions are reproduced, and altered records are reported with the altered field.

use super::decisions::RecordedDecisions;
use crate::harness::process::{error_line, run, stdout};
use crate::harness::secrets::write_private;
use crate::ledger::history::run_sql;
use std::collections::BTreeSet;

#[test]
fn replay_reproduces_every_decision_of_real_flows() {
    let recorded = RecordedDecisions::record();
    let lines = recorded.export(&[]);
    let mut n_same = 0;
    let mut replay = |arguments: &[&str]| {
        let out = stdout(recorded.run(&[&["policy", "replay"], arguments].concat()));
        assert!(out.lines().all(|line| line.contains(": same ")), "{out}");
        n_same += out.lines().count();
    };
    let at = |place: &'static str| lines.iter().filter(move |line| line["place"] == place);
    let operations: BTreeSet<_> =
        at("operation").map(|line| line["operation_id"].as_str().unwrap()).collect();
    assert_eq!(operations.len(), 6);
    operations.iter().for_each(|id| replay(&[id]));
    at("refusal").for_each(|line| replay(&[line["decision_id"].as_str().unwrap()]));
    at("preview").for_each(|line| replay(&[line["decision_id"].as_str().unwrap()]));
    assert_eq!(n_same, lines.len(), "some exported decisions were not replayed");

    let (code, out, _) = recorded.run(&["policy", "replay", &format!("{}-1", recorded.paid)]);
    assert_eq!((code, out.lines().count()), (0, 1));
    // Replays read the bundle from the store, which keeps every activated bundle, and not from the folder.
    let other_bundle = [("policy_bundle", "no/such/folder")];
    let (code, out, err) = run(recorded.folder.path(), &other_bundle, &["policy", "replay", &recorded.paid]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn replay_without_the_decision_or_its_bundle_exits_with_2() {
    let recorded = RecordedDecisions::record();
    for arguments in ["refusal-99", "preview-99", &"0".repeat(64), &format!("{}-2", recorded.paid)] {
        let (code, out, err) = recorded.run(&["policy", "replay", arguments]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("no such decision"), "{err}");
    }
    error_line(recorded.run(&["policy", "replay", &recorded.paid, "--bundle", "no/such/folder"]), 2);
}

/// Table, replaced text, new text, arguments of `policy replay` (none: the payment's submission), and the fields that it must
/// name.
type Damage = (&'static str, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const DAMAGES: [Damage; 7] = [
    ("events", "recipient_permitted", "recipient_permittee", &[], &["record", "reasons"]),
    (
        "events",
        "\"value\":\"acct-supplier-0042\"",
        "\"value\":\"acct-supplier-0043\"",
        &[],
        &["record", "decision", "reasons"],
    ),
    // A fact that does not change the answer.
    ("events", "\"value\":\"acct-supplier-0042\"", "\"value\":\"acct-supplier-0042,x\"", &[], &["record"]),
    (
        "events",
        "\"to_account\":\"acct-supplier-0042\"",
        "\"to_account\":\"acct-supplier-0043\"",
        &[],
        &["record", "input"],
    ),
    ("events", "\"fuel_used\":", "\"fuel_used\":1", &[], &["record", "fuel_used"]),
    (
        "policy_decisions",
        "recipient_not_permitted",
        "recipient_not_permittee",
        &["refusal-2"],
        &["record", "reasons"],
    ),
    (
        "policy_previews",
        "\"quorum\":{",
        "\"fault\":{\"kind\":\"trap\"},\"quorum\":{",
        &["preview-1"],
        &["record", "fault"],
    ),
];

#[tokio::test]
async fn replay_names_every_altered_field() {
    let RecordedDecisions { folder, process, paid, .. } =
        tokio::task::spawn_blocking(RecordedDecisions::record).await.unwrap();
    process.terminate();
    let undamaged = std::fs::read(folder.path().join("gateway.db")).unwrap();
    for (table, from, to, record, fields) in DAMAGES {
        let damaged = tempfile::tempdir().unwrap();
        let path = damaged.path().join("gateway.db");
        write_private(&path, &undamaged);
        let columns = if table == "events" { &["body"][..] } else { &["input", "outcome"] };
        for column in columns {
            run_sql(&path, format!("UPDATE {table} SET {column} = replace({column}, '{from}', '{to}')"))
                .await;
        }
        let submission = [format!("{paid}-1")];
        let submission: Vec<_> = submission.iter().map(String::as_str).collect();
        let record = if record.is_empty() { &submission } else { record };
        let (code, out, err) = run(damaged.path(), &[], &[&["policy", "replay"], record].concat());
        assert_eq!(code, 1, "{from}: {out}{err}");
        for field in fields {
            assert!(out.contains(&format!("\n  {field}: recorded ")), "{from}: {field}: {out}");
        }
    }
}
