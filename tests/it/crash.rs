//! `kill -9` of the real process at every failpoint of a payment, and its state after a restart.
//!
//! The first payment on a key also creates the key, which passes most failpoints too.

use crate::harness::process::{EXECUTE, Process, SIGN, drive, kill_at, publish_step};
use crate::harness::samples::{path, payment};
use crate::harness::verify;
use serde_json::{Value, json};

/// Number of commits of key creation plus payment; `whole_payment_makes_n_commits` checks it.
const N_COMMITS: u32 = 15;

/// Publishes a payment; returns its view, or an error if the process dies meanwhile.
fn pay(address: &str) -> std::io::Result<Value> {
    drive(address, SIGN, &payment("crash-1"), &[EXECUTE, publish_step()])
}

/// Kills the process at the failpoint, restarts it, sends the same requests again, and checks the result.
fn assert_survives_kill_at(point: &str) {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), point, &[], pay);

    let process = Process::start(folder.path(), None, &[]);
    let view = pay(&process.address).unwrap();
    assert_eq!(
        (&view["state"], &view["runtime"]["phase"]),
        (&json!("published"), &json!("Published")),
        "{point}"
    );
    assert_eq!(view["approvals"]["subjects"], json!(["alice", "bob"]), "{point}");
    verify::bip340(&view);
    let audit = process.get(&path(&view, "/audit-replay"));
    for once in
        ["submitted", "quorum_reached", "decision_signed", "admission_applied", "executed", "published"]
    {
        let events = audit["events"].as_array().unwrap().iter();
        let n_events = events.filter(|entry| entry["event"]["change"]["type"] == once).count();
        assert_eq!(n_events, 1, "{point}: `{once}` {audit}");
    }
    let again = process.post(&path(&view, "/execute"), None);
    assert_eq!(again["result"], view["result"], "{point}: a second execution changed the result");
}

fn assert_survives_kills_around(commits: impl Iterator<Item = u32>) {
    for nth in commits {
        assert_survives_kill_at(&format!("before-commit:{nth}"));
        assert_survives_kill_at(&format!("after-commit:{nth}"));
    }
}

#[test]
fn kill_around_the_first_commits_loses_nothing() {
    assert_survives_kills_around(1..=6);
}

#[test]
fn kill_around_the_middle_commits_loses_nothing() {
    assert_survives_kills_around(7..=12);
}

#[test]
fn kill_around_the_last_commits_loses_nothing() {
    assert_survives_kills_around(13..=N_COMMITS);
}

/// The first pass of a failpoint is by the key creation, the second by the payment.
#[test]
fn kill_between_an_effect_and_its_record_loses_nothing() {
    for step in ["decision", "admission", "policy-receipt", "execute", "publish"] {
        assert_survives_kill_at(&format!("performed-{step}:1"));
        assert_survives_kill_at(&format!("performed-{step}:2"));
    }
    assert_survives_kill_at("performed-commit-epoch:1");
}

#[test]
fn kill_after_some_nodes_have_acted_loses_nothing() {
    for point in ["mid-admission:1", "mid-admission:2", "mid-commit-epoch:1", "mid-execute:1"] {
        assert_survives_kill_at(point);
    }
}

/// Fails when [`N_COMMITS`] is too low, so that no commit remains untested.
#[test]
fn whole_payment_makes_n_commits() {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), &format!("after-commit:{N_COMMITS}"), &[], pay);
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), Some(&format!("after-commit:{}", N_COMMITS + 1)), &[]);
    assert!(pay(&process.address).is_ok(), "there are more commits: raise N_COMMITS");
}
