//! Group commit: right answers, few commits, and one bad job harms nobody else.

use std::sync::Arc;
use std::time::Duration;

use gateway_sqlite::{Database, WriteError};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::task::JoinSet;

use crate::support::{Add, Run, Spoil, Total, fresh, open, options, totals};

#[tokio::test]
async fn a_thousand_jobs_get_right_answers_in_few_commits() {
    let (_folder, path) = fresh();
    let database = Arc::new(open(&path).await);
    let mut callers = JoinSet::new();
    for id in 0..1000 {
        let database = Arc::clone(&database);
        callers.spawn(async move { database.write(Add(id)).await.unwrap() });
    }
    let mut answers = callers.join_all().await;
    answers.sort_unstable();
    assert!(answers.into_iter().eq(1..=1000), "each job saw the state that the ones before it left");
    let done = database.counters();
    assert_eq!(done.jobs, 1000);
    assert!(done.commits <= 100, "{done:?}");
    assert_eq!(totals(&database).await, (1000, 1000));
}

/// Puts a bad job between good ones, all in one batch: they are queued before the writer gets to run.
async fn beside_good_ones(database: &Database<Total>, bad: Spoil) -> Result<(), WriteError> {
    let (one, two, bad, three) = tokio::join!(
        database.write(Add(1)),
        database.write(Add(2)),
        database.write(bad),
        database.write(Add(3))
    );
    assert_eq!((one.unwrap(), two.unwrap(), three.unwrap()), (1, 2, 3));
    bad
}

#[tokio::test]
async fn a_bad_job_fails_alone() {
    for bad in [Spoil::Error, Spoil::Panic, Spoil::DeferredConstraint] {
        let (_folder, path) = fresh();
        let database = open(&path).await;
        let panics = matches!(bad, Spoil::Panic);
        let error = beside_good_ones(&database, bad).await.unwrap_err();
        assert_eq!(matches!(error, WriteError::Panicked), panics, "{error:?}");
        assert!(error.wrote_nothing());
        // One rollback for the batch, one for the bad job by itself.
        let done = database.counters();
        assert_eq!((done.jobs, done.commits, done.rollbacks), (3, 3, 2));
        assert_eq!(totals(&database).await, (3, 3));
    }
}

#[tokio::test]
async fn the_state_is_restored_when_a_job_alone_rolls_back() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    assert_eq!(database.write(Add(1)).await.unwrap(), 1);
    assert!(matches!(database.write(Spoil::Error).await, Err(WriteError::Job(_))));
    assert!(matches!(database.write(Spoil::Panic).await, Err(WriteError::Panicked)));
    // A constraint seen at once, not at COMMIT.
    assert!(matches!(database.write(Add(1)).await, Err(WriteError::Job(_))));
    assert_eq!(totals(&database).await, (1, 1));
}

#[tokio::test]
async fn a_failed_commit_fails_its_jobs_and_the_writer_goes_on() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    assert_eq!(database.write(Add(1)).await.unwrap(), 1);
    let (before, bad, after) =
        tokio::join!(database.write(Add(2)), database.write(Spoil::Rollback), database.write(Add(3)));
    for error in [before.unwrap_err(), bad.unwrap_err(), after.unwrap_err()] {
        assert!(matches!(error, WriteError::Commit(_)), "{error:?}");
        assert!(!error.wrote_nothing());
    }
    // The spoiler ended the transaction, so the last job wrote outside any: the state must know even that.
    assert_eq!(totals(&database).await, (2, 2));
    assert_eq!(database.write(Add(4)).await.unwrap(), 3);
}

#[tokio::test]
async fn a_locked_out_writer_recovers_with_the_state_of_the_file() {
    let (_folder, path) = fresh();
    let impatient = options(&path).busy_timeout(Duration::from_millis(1));
    let database = Database::<Total>::open(impatient).await.unwrap();
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
async fn a_caller_that_goes_away_does_not_stop_its_job() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    {
        let mut write = std::pin::pin!(database.write(Add(1)));
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(write.as_mut().poll(cx))).await;
        assert!(first.is_pending(), "queued, not answered");
    }
    assert_eq!(database.write(Add(2)).await.unwrap(), 2);
    assert_eq!(totals(&database).await, (2, 2));
}

#[tokio::test]
async fn closing_finishes_what_is_queued_and_empties_the_log() {
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
async fn dropping_lets_the_database_go() {
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
async fn what_was_deleted_securely_is_in_no_file() {
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
async fn readers_can_not_write() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    let refused = sqlx::query("INSERT INTO entry (id) VALUES (1)").execute(database.reader()).await;
    assert!(refused.unwrap_err().to_string().contains("readonly"));
}
