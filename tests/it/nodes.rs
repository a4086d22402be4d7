//! Damaged, missing or outdated data of nodes is found and named; full disks and file modes of nodes.

mod damaged;
mod disk;
mod modes;
mod tampered;

use crate::harness::process::{EXECUTE, Process, drive};
use crate::harness::samples::with;
use serde_json::{Value, json};

/// Drives an operation to its execution, with automatic publication.
#[track_caller]
fn executed(process: &Process, path: &str, body: &Value) -> Value {
    let body = with(body.clone(), "/publication_mode", json!("automatic"));
    drive(&process.address, path, &body, &[EXECUTE]).unwrap()
}

fn ready(process: &Process) -> (u16, Value) {
    process.call("GET", "/readyz", None)
}
