//! `kill -9` of the real process at every failpoint of a payment, and its state after a restart.
//!
//! The first payment on a key also creates the key, so each point is passed twice: by the key creation and by the payment.

use crate::harness::process::{EXECUTE, Process, SIGN, drive, kill_at, publish};
use crate::harness::samples::payment;
use crate::harness::verify;
use serde_json::{Value, json};

/// Number of commits of key creation plus payment; `a_whole_payment_makes_n_commits` checks it.
const N_COMMITS: u32 = 18;

fn pay(address: &str) -> std::io::Result<Value> {
    drive(address, SIGN, &payment("crash-1"), &[EXECUTE, publish()])
}

/// Kills at the point, restarts, sends the same requests again, and checks the result.
fn survives(point: &str) {
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
    let path = format!("/v1/operations/{}", view["operation_id"].as_str().unwrap());
    let audit = process.get(&format!("{path}/audit-replay"));
    for once in
        ["submitted", "quorum_reached", "decision_signed", "admission_applied", "executed", "published"]
    {
        let events = audit["events"].as_array().unwrap().iter();
        let n_events = events.filter(|entry| entry["event"]["change"]["type"] == once).count();
        assert_eq!(n_events, 1, "{point}: `{once}` {audit}");
    }
    let again = process.post(&format!("{path}/execute"), None);
    assert_eq!(again["result"], view["result"], "{point}: executing again signs nothing");
}

fn survive_commits(points: impl Iterator<Item = u32>) {
    for nth in points {
        survives(&format!("before-commit:{nth}"));
        survives(&format!("after-commit:{nth}"));
    }
}

#[test]
fn kill_around_the_first_commits_loses_nothing() {
    survive_commits(1..=6);
}

#[test]
fn kill_around_the_middle_commits_loses_nothing() {
    survive_commits(7..=12);
}

#[test]
fn kill_around_the_last_commits_loses_nothing() {
    survive_commits(13..=N_COMMITS);
}

/// The key creation passes each point first, the payment second.
#[test]
fn kill_between_an_effect_and_its_record_loses_nothing() {
    for step in ["decision", "admission", "policy-receipt", "execute", "publish"] {
        survives(&format!("performed-{step}:1"));
        survives(&format!("performed-{step}:2"));
    }
    survives("performed-commit-epoch:1");
}

#[test]
fn kill_after_some_nodes_have_acted_loses_nothing() {
    for point in ["mid-admission:1", "mid-admission:2", "mid-commit-epoch:1", "mid-execute:1"] {
        survives(point);
    }
}

/// Checks the constant, so that no commit goes untested.
#[test]
fn a_whole_payment_makes_n_commits() {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), &format!("after-commit:{N_COMMITS}"), &[], pay);
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), Some(&format!("after-commit:{}", N_COMMITS + 1)), &[]);
    assert!(pay(&process.address).is_ok(), "there is a further commit: raise N_COMMITS");
}
