//! `kill -9` of the real process anywhere in the life of a key: created, refreshed, reshared, recovered, rotated, and
//! used to sign. Every change ends in the old epoch or the new one.
//!
//! `SVC_TORTURE=1` (`scripts/torture`) kills at every commit and every effect; by default only at some of them.

use crate::harness::custody::{self, export, key, on_key, recover, refresh, reshare, rotate, sign};
use crate::harness::process::{EXECUTE, Process, drive, kill_at, request};
use crate::harness::samples::with;
use crate::harness::verify;
use serde_json::{Value, json};

/// Number of commits of the whole sequence; `a_whole_key_life_makes_n_commits` checks it.
const N_COMMITS: u32 = 68;

/// Number of effects of each kind in the whole sequence, in the order of the steps.
const STEPS: [(&str, u32); 6] = [
    ("decision", 7),
    ("admission", 7),
    ("policy-receipt", 7),
    ("execute", 7),
    ("commit-epoch", 5),
    ("publish", 7),
];

/// The requests in order: path and body.
fn life() -> [(String, Value); 7] {
    let automatic = |body| with(body, "/publication_mode", json!("automatic"));
    let recovery = with(recover("4"), "/recovering_participant", json!(1));
    let recovery = with(recovery, "/helper_participants", json!([2, 3, 4]));
    let signed = |id: &str, signers| with(sign(id), "/requested_participants", signers);
    [
        ("/v1/custody/keys".to_owned(), key("vault")),
        (on_key("vault", "/refresh"), automatic(refresh("2"))),
        (on_key("vault", "/reshare"), automatic(reshare("3"))),
        (on_key("vault", "/recover"), automatic(recovery)),
        (on_key("vault", "/sign"), automatic(signed("old", json!([1, 3, 4])))),
        (on_key("vault", "/rotate"), automatic(rotate("vault-2"))),
        (on_key("vault-2", "/sign"), automatic(signed("new", json!([2, 4])))),
    ]
}

/// Sends all requests in order; returns the final views, or an error when a request gets no answer.
fn live(address: &str) -> std::io::Result<Vec<Value>> {
    let mut views = vec![];
    for (path, body) in life() {
        let view = drive(address, &path, &body, &[EXECUTE])?;
        views.push(request(address, "GET", &custody::path(&view, ""), None)?.1);
    }
    Ok(views)
}

fn survives(point: &str) {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), point, &[], live);

    let process = Process::start(folder.path(), None, &[]);
    let views = live(&process.address).unwrap();
    for view in &views {
        assert_eq!(view["state"], "published", "{point}: {view}");
    }
    let shown = |key_ref: &str| process.get(&on_key(key_ref, ""));
    let (old, new) = (shown("vault"), shown("vault-2"));
    assert_eq!((&old["state"], &new["state"]), (&json!("rotated"), &json!("active")), "{point}");
    for (key, view) in [(&old, &views[4]), (&new, &views[6])] {
        verify::signature(view);
        let public_key = view["result"]["public_key_hex"].as_str().unwrap();
        assert!(key["public_key_artifact_ref"].as_str().unwrap().ends_with(public_key), "{point}: {key}");
    }
    let path = format!("/v1/custody/operations/{}", views[6]["operation_id"].as_str().unwrap());
    let receipt = &views[6]["runtime"]["publication_receipt"];
    process.post(&format!("{path}/external-export"), Some(&export(receipt, "Settled")));
}

fn every(short: usize) -> usize {
    if std::env::var_os("SVC_TORTURE").is_some() { 1 } else { short }
}

#[test]
fn kill_around_commits_of_key_operations_loses_nothing() {
    for nth in (1..=N_COMMITS).skip(6).step_by(every(13)) {
        survives(&format!("after-commit:{nth}"));
        survives(&format!("before-commit:{nth}"));
    }
}

#[test]
fn kill_between_an_effect_and_its_record_of_key_operations_loses_nothing() {
    for (number, (step, n_effects)) in STEPS.into_iter().enumerate() {
        for nth in (1..=n_effects).skip(1 + number % 3).step_by(every(4)) {
            survives(&format!("performed-{step}:{nth}"));
        }
    }
}

#[test]
fn kill_during_key_ceremonies_loses_nothing() {
    // A ceremony of n nodes passes the first two once per message round, the others n times.
    let points =
        [("mid-ceremony-start", 13), ("mid-ceremony", 19), ("mid-execute", 17), ("mid-commit-epoch", 17)];
    for (point, n_passes) in points {
        for nth in (1..=n_passes).skip(3).step_by(every(6)) {
            survives(&format!("{point}:{nth}"));
        }
    }
}

/// Checks the constants, so that no commit goes untested.
#[test]
fn a_whole_key_life_makes_n_commits() {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), &format!("after-commit:{N_COMMITS}"), &[], live);
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), Some(&format!("after-commit:{}", N_COMMITS + 1)), &[]);
    let views = live(&process.address).unwrap();
    let is_whole = views.iter().all(|view| view["state"] == "published");
    assert!(is_whole, "there is a further commit: raise N_COMMITS");
}
