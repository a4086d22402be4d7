//! The real process with a node whose database was restored from an older copy.

use super::execute;
use crate::harness::custody;
use crate::harness::process::{Process, SIGN, error_line, run, stdout};
use crate::harness::samples::{path, payment};
use serde_json::{Value, json};
use std::fs;

/// Executes and publishes a payment; returns the nodes that signed it.
fn signers(process: &Process, key: &str) -> Value {
    let view = execute(process, SIGN, &payment(key));
    process.get(&path(&view, "/evidence"))["result"]["signers"].clone()
}

#[test]
fn restored_node_stops_until_an_operator_readmits_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("nodes/node-0.db");
    let process = Process::start(folder.path(), None, &[]);
    execute(&process, SIGN, &payment("before"));
    process.terminate();
    let backup = fs::read(&database).unwrap();
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(signers(&process, "lost"), json!([0, 1]));
    process.terminate();
    fs::write(&database, &backup).unwrap();

    // The node stops when it is opened.
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(signers(&process, "without it"), json!([1, 2]));
    let busy = error_line(run(folder.path(), &[], &["nodes", "readmit", "0"]), 2);
    assert!(busy.contains("another process"), "{busy}");
    process.terminate();
    let (code, out, _) = run(folder.path(), &[], &["nodes", "check"]);
    let stopped =
        "node 0: rolled_back, one 1: the node has stopped: its database is older than what it signed";
    assert!(code == 1 && out.lines().any(|line| line == stopped), "{out}");

    let missing = error_line(run(folder.path(), &[], &["nodes", "readmit", "9"]), 2);
    assert!(missing.contains("node 9 has no database"), "{missing}");
    let out = stdout(run(folder.path(), &[], &["nodes", "readmit", "0"]));
    assert!(out.starts_with("node 0 was readmitted; its log has "), "{out}");
    assert_eq!(stdout(run(folder.path(), &[], &["nodes", "check"])), "node 0: ok\nnode 1: ok\nnode 2: ok\n");
    let log = stdout(run(folder.path(), &[], &["nodes", "log", "0"]));
    assert!(log.contains("\"type\":\"lost\"") && log.contains("\"type\":\"readmitted\""), "{log}");

    // The decisions of the first five minutes may be older by the tolerated difference of clocks.
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(signers(&process, "after"), json!([1, 2]));
    assert_eq!(process.readiness().1["checks"]["nodes"]["detail"], json!(null));
}

/// A node with a new database has another identity: receipts of the former one prove nothing about it.
#[test]
fn replaced_node_is_not_stopped_by_receipts_of_the_former_one() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    execute(&process, custody::KEYS, &custody::key("vault"));
    process.terminate();
    fs::remove_file(folder.path().join("nodes/node-2.db")).unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let recovered = execute(&process, &custody::key_path("vault", "/recover"), &custody::recover("2"));
    let recovered = process.get(&custody::path(&recovered, ""));
    assert_eq!(recovered["state"], "published", "{recovered}");
    process.terminate();
    assert_eq!(stdout(run(folder.path(), &[], &["nodes", "check"])), "node 0: ok\nnode 1: ok\nnode 2: ok\n");
}
