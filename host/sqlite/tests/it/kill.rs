//! Acknowledged writes survive a SIGKILL of the process.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use gateway_sqlite::{Database, OpenError, Reader};
use tokio::task::JoinSet;

use crate::support::{Add, Total, fresh, open, options, totals};

/// Environment variable of the child: the database to write.
const CHILD: &str = "GATEWAY_SQLITE_TEST_CHILD";

#[tokio::test]
async fn acknowledged_writes_survive_sigkill() {
    let (_folder, path) = fresh();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child_writes_until_killed", "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = |line: std::io::Result<String>| line.ok()?.strip_prefix("ack ")?.parse::<i64>().ok();
    let mut seen: Vec<i64> = lines.by_ref().filter_map(acknowledged).take(500).collect();
    assert_eq!(seen.len(), 500, "the child ended early");
    let refused = Database::<Total>::open(options(&path)).await.unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "the child has it open: {refused:?}");
    // A reader finds all writes acknowledged so far, while the child continues to write.
    assert_eq!(missing(&path, &seen).await, []);
    child.kill().unwrap();
    child.wait().unwrap();
    // Writes reported in the pipe were acknowledged too.
    seen.extend(lines.filter_map(acknowledged));
    // A reader reads the log that the dead process left behind.
    assert_eq!(missing(&path, &seen).await, []);

    let database = open(&path).await;
    for id in &seen {
        let found: Option<i64> = sqlx::query_scalar("SELECT id FROM entry WHERE id = ?1")
            .bind(id)
            .fetch_optional(database.reader())
            .await
            .unwrap();
        assert_eq!(found, Some(*id));
    }
    let (rows, state) = totals(&database).await;
    assert_eq!(rows, state);
}

/// The entries that a reader does not find.
async fn missing(path: &Path, wanted: &[i64]) -> Vec<i64> {
    let reader = Reader::open(options(path)).await.unwrap();
    let found: BTreeSet<i64> = sqlx::query_scalar("SELECT id FROM entry")
        .fetch_all(reader.pool())
        .await
        .unwrap()
        .into_iter()
        .collect();
    reader.close().await;
    wanted.iter().copied().filter(|id| !found.contains(id)).collect()
}

/// Not a test by itself: the child process of `acknowledged_writes_survive_sigkill`.
#[tokio::test]
async fn child_writes_until_killed() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let database = Arc::new(open(&path).await);
    let mut writers = JoinSet::new();
    for lane in 0..8 {
        let database = Arc::clone(&database);
        writers.spawn(async move {
            for n in 0.. {
                let id = lane + 8 * n;
                database.write(Add(id)).await.unwrap();
                println!("ack {id}");
            }
        });
    }
    writers.join_all().await;
}
