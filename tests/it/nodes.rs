//! Damaged, missing or outdated data of nodes is found and named; full disks and file modes of nodes.

mod damaged;
mod disk;
mod modes;
mod tampered;

use crate::harness::process::{Process, request};
use crate::harness::samples::approval;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::path::Path;

/// Sends a request that must be answered with 200.
#[track_caller]
fn sent(process: &Process, path: &str, body: Option<&Value>) -> Value {
    let (status, view) = request(&process.address, "POST", path, body).unwrap();
    assert_eq!(status, 200, "{path}: {view}");
    view
}

/// Drives an operation to its execution, with automatic publication.
#[track_caller]
fn executed(process: &Process, family: &str, path: &str, body: &Value) -> Value {
    let mut body = body.clone();
    body["publication_mode"] = json!("automatic");
    let view = sent(process, path, Some(&body));
    let id = view["operation"]["operation_id"].as_str().or(view["operation_id"].as_str()).unwrap().to_owned();
    let path = format!("{family}/{id}");
    sent(process, &format!("{path}/approve"), Some(&approval("alice")));
    sent(process, &format!("{path}/approve"), Some(&approval("bob")));
    sent(process, &format!("{path}/execute"), None)
}

fn ready(process: &Process) -> (u16, Value) {
    request(&process.address, "GET", "/readyz", None).unwrap()
}

/// Alters a database as another program would.
async fn change(path: &Path, sql: &'static str) {
    let mut conn = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}
