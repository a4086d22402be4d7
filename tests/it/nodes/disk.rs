//! Full disks. The tests need the right to mount a small file system; without it they do nothing.

use super::execute;
use crate::harness::process::{Process, SIGN, run};
use crate::harness::samples::{approval, path, payment};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::runtime::Runtime;

/// A file system of 8 MiB.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// `None` if mounting is not permitted; `full_disk_is_reported_until_a_write_succeeds` does not need it.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs"]).arg(folder.path());
        let is_mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        is_mounted.then_some(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn fill(&self) {
        let mut ballast = File::create(self.path("ballast")).unwrap();
        for size in [1 << 16, 1 << 10, 1] {
            while ballast.write_all(&vec![7; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.path("ballast")).unwrap();
    }
}

const EMPTY_AND_READ: &str = "PRAGMA wal_checkpoint(TRUNCATE); BEGIN; SELECT count(*) FROM sqlite_schema";

/// Empties the logs of these databases and reads meanwhile, so that no log can start over: each write needs room.
fn read_meanwhile(databases: &[PathBuf]) -> (Runtime, Vec<SqliteConnection>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let begin = async |path| {
        let mut conn = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        sqlx::raw_sql(EMPTY_AND_READ).execute(&mut conn).await.unwrap();
        conn
    };
    let readers = databases.iter().map(|path| runtime.block_on(begin(path))).collect();
    (runtime, readers)
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _busy = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

/// Probes until the gateway is ready. It checks the disk once a second.
fn wait_until_ready(process: &Process) {
    while process.readiness().0 != 200 {}
}

/// The detail of a readiness check; empty without one.
fn detail<'a>(view: &'a Value, check: &str) -> &'a str {
    view["checks"][check]["detail"].as_str().unwrap_or_default()
}

/// The message of a 503 with this error code, which must not contain the path `folder`.
#[track_caller]
fn unavailable(process: &Process, path: &str, body: &Value, code: &str, folder: &Path) -> String {
    let (status, view) = process.call("POST", path, Some(body));
    assert_eq!((status, view["error"].as_str()), (503, Some(code)), "{view}");
    let message = view["message"].as_str().unwrap().to_owned();
    assert!(!message.contains(folder.to_str().unwrap()), "{message}");
    message
}

#[test]
fn full_disk_is_reported_and_the_gateway_resumes_when_there_is_room() {
    let Some(disk) = Disk::mount() else { return };
    let folder = tempfile::tempdir().unwrap();
    let database = disk.path("gateway.db");
    let url = format!("sqlite://{}", database.display());
    let overrides = [("database_url", url.as_str())];
    let mut process = Process::start(folder.path(), None, &overrides);
    let reading = read_meanwhile(std::slice::from_ref(&database));
    let before = execute(&process, SIGN, &payment("before"));
    disk.fill();
    let message = unavailable(&process, SIGN, &payment("full"), "store_unavailable", disk.folder.path());
    assert!(message.contains("the disk is full"), "{message}");
    let named = format!("the disk with `{}` is full", database.display());
    process.wait_for_line(&named);
    let (status, view) = process.readiness();
    assert_eq!((status, detail(&view, "audit_append")), (503, named.as_str()), "{view}");
    drop(reading);
    disk.make_room();
    wait_until_ready(&process);
    process.wait_for_line("has room again");
    execute(&process, SIGN, &payment("full"));
    let view = process.get(&path(&before, ""));
    assert_eq!(view["state"], "published", "an answered operation was lost: {view}");
    assert_eq!(run(folder.path(), &overrides, &["ledger", "fsck"]).0, 0);
}

#[test]
fn full_disk_of_nodes_is_reported_and_they_resume_when_there_is_room() {
    let Some(disk) = Disk::mount() else { return };
    let folder = tempfile::tempdir().unwrap();
    let nodes = disk.path("nodes");
    let overrides = [("node_directory", nodes.to_str().unwrap())];
    let mut process = Process::start(folder.path(), None, &overrides);
    execute(&process, SIGN, &payment("before"));
    let reading = read_meanwhile(&[0, 1, 2].map(|node| nodes.join(format!("node-{node}.db"))));
    let waiting = process.post(SIGN, Some(&payment("full")));
    let approve = path(&waiting["operation"], "/approve");
    process.post(&approve, Some(&approval("alice")));
    disk.fill();
    unavailable(&process, &approve, &approval("bob"), "runtime_unavailable", disk.folder.path());
    process.wait_for_line(&format!("the disk with `{}` is full", nodes.join("node-0.db").display()));
    let (status, view) = process.readiness();
    process.wait_for_line("a node cannot be used");
    let at = [("node_directory", nodes.to_str().unwrap()), ("bind", process.address.as_str())];
    let (code, found, errors) = run(folder.path(), &at, &["doctor"]);
    assert!(
        code == 1 && found.contains("error    gateway         the running gateway's check `nodes` fails: "),
        "{found}{errors}"
    );
    let named = |node: u16| {
        let path = nodes.join(format!("node-{node}.db"));
        format!("node {node}: the disk with `{}` is full", path.display())
    };
    let detail = detail(&view, "nodes");
    assert!(status == 503 && [0, 1, 2].iter().all(|node| detail.contains(&named(*node))), "{view}");
    drop(reading);
    disk.make_room();
    wait_until_ready(&process);
    process.post(&approve, Some(&approval("bob")));
    let paid = process.post(&path(&waiting["operation"], "/execute"), None);
    assert_eq!(paid["state"], "executed", "{paid}");
    assert_eq!(run(folder.path(), &overrides, &["nodes", "check"]).0, 0);
}
