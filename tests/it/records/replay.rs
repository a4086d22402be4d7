//! `policy replay`: every recorded decision gives the same bytes and fuel, and every alteration is named.

use super::story::Story;
use crate::harness::process::tool;
use crate::ledger::history::execute;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

#[test]
fn replay_reproduces_every_decision_of_real_flows() {
    let story = Story::recorded();
    let lines = story.export(&[]);
    let mut n_same = 0;
    let mut replay = |arguments: &[&str]| {
        let (code, out, err) = story.tool(&[&["policy", "replay"], arguments].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
        assert!(out.lines().all(|line| line.contains(": same ")), "{out}");
        n_same += out.lines().count();
    };
    let of = |place: &'static str| lines.iter().filter(move |line| line["place"] == place);
    let operations: BTreeSet<_> =
        of("operation").map(|line| line["operation_id"].as_str().unwrap()).collect();
    assert_eq!(operations.len(), 6);
    operations.iter().for_each(|id| replay(&[id]));
    of("refusal").for_each(|line| replay(&["--decision", &line["index"].to_string()]));
    of("preview").for_each(|line| replay(&["--preview", &line["index"].to_string()]));
    assert_eq!(n_same, lines.len(), "each of the exported decisions");

    let (code, out, _) = story.tool(&["policy", "replay", &story.paid, "--seq", "1"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    // The bundle that admitted the key is gone from the folder, but the store keeps every activated bundle.
    let elsewhere = [("policy_bundle", "no/such/folder")];
    let (code, out, err) = tool(story.folder.path(), &elsewhere, &["policy", "replay", &story.paid]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn replay_reports_records_without_their_bundle_as_not_checked() {
    let story = Story::recorded();
    for arguments in
        [&["--decision", "99"][..], &["--preview", "99"], &[&"0".repeat(64)], &[&story.paid, "--seq", "2"]]
    {
        let (code, out, err) = story.tool(&[&["policy", "replay"], arguments].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("no such decision"), "{err}");
    }
    let (code, out, err) = story.tool(&["policy", "replay", &story.paid, "--bundle", "no/such/folder"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
}

/// The altered record, the replayed records, and the fields that the replay must name.
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
        &["--decision", "2"],
        &["record", "reasons"],
    ),
    (
        "policy_previews",
        "\"quorum\":{",
        "\"fault\":\"trap\",\"quorum\":{",
        &["--preview", "1"],
        &["record", "fault"],
    ),
];

#[tokio::test]
async fn replay_names_every_altered_field() {
    let Story { folder, process, paid, .. } = tokio::task::spawn_blocking(Story::recorded).await.unwrap();
    process.terminate();
    let intact = std::fs::read(folder.path().join("gateway.db")).unwrap();
    for (table, from, to, which, fields) in DAMAGES {
        let damaged = tempfile::tempdir().unwrap();
        let path = damaged.path().join("gateway.db");
        std::fs::write(&path, &intact).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let columns = if table == "events" { &["body"][..] } else { &["input", "outcome"] };
        for column in columns {
            execute(&path, format!("UPDATE {table} SET {column} = replace({column}, '{from}', '{to}')"))
                .await;
        }
        let which: Vec<&str> = if which.is_empty() { vec![&paid, "--seq", "1"] } else { which.to_vec() };
        let (code, out, err) = tool(damaged.path(), &[], &[&["policy", "replay"], &which[..]].concat());
        assert_eq!(code, 1, "{from}: {out}{err}");
        for field in fields {
            assert!(out.contains(&format!("\n  {field}: recorded ")), "{from}: {field}: {out}");
        }
    }
}
