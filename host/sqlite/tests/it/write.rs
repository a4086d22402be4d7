//! Group commit, isolated failures, and a full disk.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gateway_sqlite::{Connection, Database, Job, WriteError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::task::JoinSet;

use crate::support::{Add, FailingJob, Run, Total, fresh, open, options, totals};

#[tokio::test]
async fn thousand_jobs_get_right_answers_in_few_commits() {
    let (_folder, path) = fresh();
    let database = Arc::new(open(&path).await);
    let mut callers = JoinSet::new();
    for id in 0..1000 {
        let database = Arc::clone(&database);
        callers.spawn(async move { database.write(Add(id)).await.unwrap() });
    }
    let mut answers = callers.join_all().await;
    answers.sort_unstable();
    assert!(answers.into_iter().eq(1..=1000), "each job saw the state that the previous ones left");
    let done = database.counters();
    assert_eq!(done.jobs, 1000);
    assert!(done.commits <= 100, "{done:?}");
    assert_eq!(totals(&database).await, (1000, 1000));
}

/// A connection that keeps the writer from beginning a transaction. Jobs that are queued meanwhile are in one batch.
async fn hold(path: &Path) -> SqliteConnection {
    let mut shell = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut shell).await.unwrap();
    shell
}

async fn release(mut shell: SqliteConnection) {
    sqlx::raw_sql("COMMIT").execute(&mut shell).await.unwrap();
}

/// Writes a failing job together with others.
async fn write_with_others(
    database: &Database<Total>,
    path: &Path,
    bad: FailingJob,
) -> Result<(), WriteError> {
    let shell = hold(path).await;
    let (one, two, bad, three, ()) = tokio::join!(
        database.write(Add(1)),
        database.write(Add(2)),
        database.write(bad),
        database.write(Add(3)),
        release(shell)
    );
    assert_eq!((one.unwrap(), two.unwrap(), three.unwrap()), (1, 2, 3));
    bad
}

#[tokio::test]
async fn failing_job_does_not_fail_others_in_its_batch() {
    for bad in [FailingJob::Error, FailingJob::Panic, FailingJob::DeferredConstraint] {
        let (_folder, path) = fresh();
        let database = open(&path).await;
        let panics = matches!(bad, FailingJob::Panic);
        let error = write_with_others(&database, &path, bad).await.unwrap_err();
        assert_eq!(matches!(error, WriteError::Panicked), panics, "{error:?}");
        assert!(error.wrote_nothing());
        // One rollback of the batch, one of the failing job alone.
        let done = database.counters();
        assert_eq!((done.jobs, done.commits, done.rollbacks), (3, 3, 2));
        assert_eq!(totals(&database).await, (3, 3));
    }
}

#[tokio::test]
async fn state_is_restored_when_a_single_job_rolls_back() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    assert_eq!(database.write(Add(1)).await.unwrap(), 1);
    assert!(matches!(database.write(FailingJob::Error).await, Err(WriteError::Job(_))));
    assert!(matches!(database.write(FailingJob::Panic).await, Err(WriteError::Panicked)));
    // A violation of a constraint that is checked immediately, not at COMMIT.
    assert!(matches!(database.write(Add(1)).await, Err(WriteError::Job(_))));
    assert_eq!(totals(&database).await, (1, 1));
}

#[tokio::test]
async fn failed_commit_fails_its_jobs_and_the_writer_continues() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    assert_eq!(database.write(Add(1)).await.unwrap(), 1);
    let shell = hold(&path).await;
    let (before, bad, after, ()) = tokio::join!(
        database.write(Add(2)),
        database.write(FailingJob::Rollback),
        database.write(Add(3)),
        release(shell)
    );
    for error in [before.unwrap_err(), bad.unwrap_err(), after.unwrap_err()] {
        assert!(matches!(error, WriteError::Commit(_)), "{error:?}");
        assert!(!error.wrote_nothing());
    }
    // The failing job ended the transaction, so the last job wrote outside of any: the state must include that write.
    assert_eq!(totals(&database).await, (2, 2));
    assert_eq!(database.write(Add(4)).await.unwrap(), 3);
}

#[tokio::test]
async fn writer_blocked_by_a_lock_recovers_with_the_state_of_the_file() {
    let (_folder, path) = fresh();
    let options = options(&path).busy_timeout(Duration::from_millis(1));
    let database = Database::<Total>::open(options).await.unwrap();
    assert_eq!(database.write(Add(1)).await.unwrap(), 1);
    let mut shell = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE; INSERT INTO entry (id) VALUES (2)").execute(&mut shell).await.unwrap();
    let error = database.write(Add(3)).await.unwrap_err();
    assert!(matches!(error, WriteError::Unavailable(_)), "{error:?}");
    assert!(error.wrote_nothing());
    sqlx::raw_sql("COMMIT").execute(&mut shell).await.unwrap();
    assert_eq!(database.write(Add(3)).await.unwrap(), 3);
    assert_eq!(totals(&database).await, (3, 3));
}

#[tokio::test]
async fn disconnected_caller_does_not_stop_its_job() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    {
        let mut write = std::pin::pin!(database.write(Add(1)));
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(write.as_mut().poll(cx))).await;
        assert!(first.is_pending(), "the job is queued, but has no answer yet");
    }
    assert_eq!(database.write(Add(2)).await.unwrap(), 2);
    assert_eq!(totals(&database).await, (2, 2));
}

#[tokio::test]
async fn close_finishes_queued_jobs_and_empties_the_log() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    let (queued, ()) = tokio::join!(database.write(Add(1)), database.close());
    assert_eq!(queued.unwrap(), 1);
    assert!(matches!(database.write(Add(2)).await, Err(WriteError::Closed)));
    database.close().await;
    assert!(!path.with_extension("db-wal").exists());
    let again = open(&path).await;
    assert_eq!(totals(&again).await, (1, 1));
}

#[tokio::test]
async fn drop_releases_the_database() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    assert_eq!(database.write(Add(1)).await.unwrap(), 1);
    drop(database);
    let again = loop {
        match Database::<Total>::open(options(&path)).await {
            Ok(database) => break database,
            Err(gateway_sqlite::OpenError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    };
    assert_eq!(totals(&again).await, (1, 1));
}

#[tokio::test]
async fn secure_delete_leaves_no_copy_in_any_file() {
    let (_folder, path) = fresh();
    let log = path.with_extension("db-wal");
    let database = Database::<Total>::open(options(&path).secure_delete()).await.unwrap();
    let secret = b"a share of a key";
    let holds_secret = || {
        [&path, &log]
            .map(|file| std::fs::read(file).unwrap().windows(secret.len()).any(|bytes| bytes == secret))
    };
    database.write(Run("CREATE TABLE vault (share TEXT)")).await.unwrap();
    database.write(Run("INSERT INTO vault VALUES ('a share of a key')")).await.unwrap();
    assert!(database.checkpoint().await.unwrap());
    assert_eq!(holds_secret(), [true, false]);
    database.write(Run("DELETE FROM vault")).await.unwrap();
    assert!(database.checkpoint().await.unwrap());
    assert_eq!(holds_secret(), [false, false]);
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
}

#[tokio::test]
async fn readers_cannot_write() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    let readers = database.readers();
    for mut conn in [readers.acquire().await.unwrap(), readers.at_hand().await.unwrap()] {
        let refused = conn.run("INSERT INTO entry (id) VALUES (1)", &[]).await;
        assert!(refused.unwrap_err().to_string().contains("readonly"));
    }
    database.close().await;
    assert!(database.readers().at_hand().await.is_err(), "a closed database is not read");
}

/// Limits the database to its present size plus some pages. A transaction that needs more fails with `SQLITE_FULL`,
/// as on a full disk.
struct LimitPages(i64);

impl Job for LimitPages {
    type State = Total;
    type Output = ();

    async fn apply(&self, conn: &mut Connection, _total: &mut Total) -> Result<(), sqlx::Error> {
        let n_pages: i64 = conn.value("PRAGMA page_count", &[]).await?;
        conn.run(&format!("PRAGMA max_page_count = {}", n_pages + self.0), &[]).await
    }
}

#[tokio::test]
async fn full_disk_is_reported_until_a_write_succeeds() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    assert_eq!(database.full_disk(), None);
    database.write(LimitPages(1)).await.unwrap();
    let mut n_written = 0;
    let error = loop {
        match database.write(Add(n_written)).await {
            Ok(_) => n_written += 1,
            Err(error) => break error,
        }
    };
    assert!(n_written > 0, "{error:?}");
    assert_eq!(database.full_disk(), Some(fs::canonicalize(&path).unwrap().as_path()));
    assert!(matches!(database.write(FailingJob::Error).await, Err(WriteError::Job(_))));
    assert!(database.full_disk().is_some(), "another error must not clear the report");
    assert_eq!(totals(&database).await, (n_written, n_written), "acknowledged writes are kept");
    database.write(LimitPages(1_000)).await.unwrap();
    database.probe().await.unwrap();
    assert_eq!(database.full_disk(), None);
    assert_eq!(database.write(Add(n_written)).await.unwrap(), n_written + 1);
}

#[tokio::test]
async fn probe_commits_a_change() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    database.checkpoint().await.unwrap();
    let log = path.with_extension("db-wal");
    assert_eq!(fs::metadata(&log).unwrap().len(), 0);
    database.probe().await.unwrap();
    assert!(fs::metadata(&log).unwrap().len() > 0, "a probe must write");
}
