//! Nodes with damaged, missing or outdated data, full disks and wrong file modes.

mod damaged;
mod disk;
mod modes;
mod restored;
mod tampered;

use crate::harness::process::{EXECUTE, Process, drive};
use crate::harness::samples::with;
use serde_json::{Value, json};

/// Executes an operation with automatic publication; returns its view after the execution.
#[track_caller]
fn execute(process: &Process, path: &str, body: &Value) -> Value {
    let body = with(body.clone(), "/publication_mode", json!("automatic"));
    drive(&process.address, path, &body, &[EXECUTE]).unwrap()
}
