//! `kill -9` of the real process while it creates, refreshes, reshares, recovers, rotates and signs with keys: after a restart,
//! the same requests complete every operation.
//!
//! `scripts/torture` sets `SVC_TORTURE=1`, which kills at more of the failpoints. By default the tests kill at some of them.

use crate::harness::custody::{self, export, key, key_path, recover, refresh, reshare, rotate, sign};
use crate::harness::process::{EXECUTE, Process, drive, kill_at, request};
use crate::harness::samples::with;
use crate::harness::verify;
use serde_json::{Value, json};

/// Number of commits of the whole sequence; `whole_key_life_makes_n_commits` checks it.
const N_COMMITS: u32 = 64;

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
fn requests() -> [(String, Value); 7] {
    let automatic = |body| with(body, "/publication_mode", json!("automatic"));
    let recovery = with(recover("4"), "/recovering_participant", json!(1));
    let recovery = with(recovery, "/helper_participants", json!([2, 3, 4]));
    let signed = |id: &str, signers| with(sign(id), "/requested_participants", signers);
    [
        ("/v1/custody/keys".to_owned(), key("vault")),
        (key_path("vault", "/refresh"), automatic(refresh("2"))),
        (key_path("vault", "/reshare"), automatic(reshare("3"))),
        (key_path("vault", "/recover"), automatic(recovery)),
        (key_path("vault", "/sign"), automatic(signed("old", json!([1, 3, 4])))),
        (key_path("vault", "/rotate"), automatic(rotate("vault-2"))),
        (key_path("vault-2", "/sign"), automatic(signed("new", json!([2, 4])))),
    ]
}

/// Sends all requests in order; returns the final views, or an error if the process dies meanwhile.
fn send_requests(address: &str) -> std::io::Result<Vec<Value>> {
    let mut views = vec![];
    for (path, body) in requests() {
        let view = drive(address, &path, &body, &[EXECUTE])?;
        views.push(request(address, "GET", &custody::path(&view, ""), None)?.1);
    }
    Ok(views)
}

/// Kills the process at the failpoint, restarts it, sends the same requests again, and checks keys and signatures.
fn assert_survives_kill_at(point: &str) {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), point, &[], send_requests);

    let process = Process::start(folder.path(), None, &[]);
    let views = send_requests(&process.address).unwrap();
    for view in &views {
        assert_eq!(view["state"], "published", "{point}: {view}");
    }
    let shown = |key_ref: &str| process.get(&key_path(key_ref, ""));
    let (old, new) = (shown("vault"), shown("vault-2"));
    assert_eq!((&old["state"], &new["state"]), (&json!("rotated"), &json!("active")), "{point}");
    for (key, view) in [(&old, &views[4]), (&new, &views[6])] {
        verify::signature(view);
        let public_key = view["result"]["public_key_hex"].as_str().unwrap();
        assert!(key["public_key_artifact_ref"].as_str().unwrap().ends_with(public_key), "{point}: {key}");
    }
    let receipt = &views[6]["runtime"]["publication_receipt"];
    process.post(&custody::path(&views[6], "/external-export"), Some(&export(receipt, "Settled")));
}

/// The step width over failpoints: `default`, and 1 under `SVC_TORTURE`.
fn step_width(default: usize) -> usize {
    if std::env::var_os("SVC_TORTURE").is_some() { 1 } else { default }
}

#[test]
fn kill_around_commits_of_key_operations_loses_nothing() {
    for nth in (1..=N_COMMITS).skip(6).step_by(step_width(13)) {
        assert_survives_kill_at(&format!("after-commit:{nth}"));
        assert_survives_kill_at(&format!("before-commit:{nth}"));
    }
}

#[test]
fn kill_between_an_effect_and_its_record_of_key_operations_loses_nothing() {
    for (number, (step, n_effects)) in STEPS.into_iter().enumerate() {
        for nth in (1..=n_effects).skip(1 + number % 3).step_by(step_width(4)) {
            assert_survives_kill_at(&format!("performed-{step}:{nth}"));
        }
    }
}

#[test]
fn kill_during_key_ceremonies_loses_nothing() {
    // In a ceremony of n nodes, the first two are passed once in each message round, the others n times.
    let points =
        [("mid-ceremony-start", 13), ("mid-ceremony", 19), ("mid-execute", 17), ("mid-commit-epoch", 17)];
    for (point, n_passes) in points {
        for nth in (1..=n_passes).skip(3).step_by(step_width(6)) {
            assert_survives_kill_at(&format!("{point}:{nth}"));
        }
    }
}

/// Fails when [`N_COMMITS`] is too low, so that no commit remains untested.
#[test]
fn whole_key_life_makes_n_commits() {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), &format!("after-commit:{N_COMMITS}"), &[], send_requests);
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), Some(&format!("after-commit:{}", N_COMMITS + 1)), &[]);
    let views = send_requests(&process.address).unwrap();
    let is_whole = views.iter().all(|view| view["state"] == "published");
    assert!(is_whole, "there are more commits: raise N_COMMITS");
}
