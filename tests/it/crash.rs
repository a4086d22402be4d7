//! `kill -9` of the real process at every failpoint of a payment, and its state after a restart.
//!
//! The first payment on a key also creates the key, so each point is passed twice: by the key creation and by the payment.

use crate::harness::process::{Process, request};
use crate::harness::samples::{approval, payment, publication};
use crate::harness::verify;
use serde_json::{Value, json};
use std::thread;

/// Number of commits of key creation plus payment; `a_whole_payment_makes_n_commits` checks it.
const N_COMMITS: u32 = 18;

/// Sends until the answer is 200. An error means that the test killed the process.
fn drive_flow(address: &str) -> std::io::Result<Value> {
    let call = |path: &str, body: Option<&Value>| -> std::io::Result<Value> {
        let (status, view) = request(address, "POST", path, body)?;
        assert_eq!(status, 200, "{path}: {view}");
        Ok(view)
    };
    let submitted = call("/v1/operations/sign", Some(&payment("crash-1")))?;
    let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    call(&format!("{path}/approve"), Some(&approval("alice")))?;
    call(&format!("{path}/approve"), Some(&approval("bob")))?;
    call(&format!("{path}/execute"), None)?;
    call(&format!("{path}/publish"), Some(&publication()))
}

/// Kills at the point, restarts, sends the same requests again, and checks the result.
fn survives(point: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), Some(point), &[]);
    let address = process.address.clone();
    let client = thread::spawn(move || drive_flow(&address));
    process.wait_for_line("failpoint ");
    process.kill();
    assert!(client.join().unwrap().is_err(), "{point}: the process must die under its client");

    let process = Process::start(folder.path(), None, &[]);
    let view = drive_flow(&process.address).unwrap();
    assert_eq!(
        (&view["state"], &view["runtime"]["phase"]),
        (&json!("published"), &json!("Published")),
        "{point}"
    );
    assert_eq!(view["approvals"]["subjects"], json!(["alice", "bob"]), "{point}");
    verify::bip340(&view);
    let path = format!("/v1/operations/{}", view["operation_id"].as_str().unwrap());
    let (_, audit) = request(&process.address, "GET", &format!("{path}/audit-replay"), None).unwrap();
    for once in
        ["submitted", "quorum_reached", "decision_signed", "admission_applied", "executed", "published"]
    {
        let events = audit["events"].as_array().unwrap().iter();
        let n_events = events.filter(|entry| entry["event"]["change"]["type"] == once).count();
        assert_eq!(n_events, 1, "{point}: `{once}` {audit}");
    }
    let (_, again) = request(&process.address, "POST", &format!("{path}/execute"), None).unwrap();
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
    let mut process = Process::start(folder.path(), Some(&format!("after-commit:{N_COMMITS}")), &[]);
    let address = process.address.clone();
    let client = thread::spawn(move || drive_flow(&address));
    process.wait_for_line("failpoint ");
    process.kill();
    assert!(client.join().unwrap().is_err());
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), Some(&format!("after-commit:{}", N_COMMITS + 1)), &[]);
    assert!(drive_flow(&process.address).is_ok(), "there is a further commit: raise N_COMMITS");
}
