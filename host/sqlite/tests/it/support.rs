//! A small schema, test jobs, and a database in a temporary folder.

use std::path::{Path, PathBuf};

use gateway_sqlite::{ApplicationId, Connection, Database, Job, Migration, Options, Readers, State};
use tempfile::TempDir;

pub(crate) const OURS: ApplicationId = ApplicationId::new(*b"TEST");

pub(crate) const SCHEMA: Migration = Migration {
    version: 1,
    name: "entry",
    sql: "CREATE TABLE entry (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES entry (id) DEFERRABLE INITIALLY DEFERRED) STRICT;",
};

pub(crate) const MIGRATIONS: &[Migration] = &[SCHEMA];

const COUNT: &str = "SELECT count(*) FROM entry";

/// A path for a database in a temporary folder, which is deleted when dropped.
pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    (folder, path)
}

pub(crate) fn options(path: &Path) -> Options {
    Options::at_path(path, OURS, MIGRATIONS).create()
}

pub(crate) async fn open(path: &Path) -> Database<Total> {
    Database::open(options(path)).await.unwrap()
}

/// The number of entries, in memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Total(pub(crate) i64);

impl State for Total {
    async fn load(conn: &mut Connection) -> Result<Self, sqlx::Error> {
        conn.value(COUNT, &[]).await.map(Self)
    }
}

/// Inserts an entry and returns the new total.
pub(crate) struct Add(pub(crate) i64);

impl Job for Add {
    type State = Total;
    type Output = i64;

    async fn apply(&self, conn: &mut Connection, total: &mut Total) -> Result<i64, sqlx::Error> {
        total.0 += 1;
        conn.run("INSERT INTO entry (id) VALUES (?1)", &[self.0.into()]).await?;
        Ok(total.0)
    }
}

/// Jobs that fail after they inserted an entry and changed the state.
pub(crate) enum FailingJob {
    Error,
    Panic,
    /// Leaves a dangling reference, which only COMMIT detects.
    DeferredConstraint,
    /// Ends the transaction itself, so that COMMIT fails.
    Rollback,
}

impl Job for FailingJob {
    type State = Total;
    type Output = ();

    async fn apply(&self, conn: &mut Connection, total: &mut Total) -> Result<(), sqlx::Error> {
        total.0 += 1000;
        conn.run("INSERT INTO entry (id) VALUES (-1)", &[]).await?;
        match self {
            Self::Error => Err(sqlx::Error::Protocol("failed".to_owned())),
            Self::Panic => panic!("failed"),
            Self::DeferredConstraint => conn.run("UPDATE entry SET parent = -2 WHERE id = -1", &[]).await,
            Self::Rollback => conn.run("ROLLBACK", &[]).await,
        }
    }
}

/// The number of rows.
pub(crate) async fn n_entries(readers: &Readers) -> i64 {
    let on_thread: i64 = readers.acquire().await.unwrap().value(COUNT, &[]).await.unwrap();
    let at_hand: i64 = readers.at_hand().await.unwrap().value(COUNT, &[]).await.unwrap();
    assert_eq!(on_thread, at_hand);
    on_thread
}

/// The number of rows, and the number in the writer's state.
pub(crate) async fn totals(database: &Database<Total>) -> (i64, i64) {
    struct ReadTotal;
    impl Job for ReadTotal {
        type State = Total;
        type Output = i64;
        async fn apply(&self, _conn: &mut Connection, total: &mut Total) -> Result<i64, sqlx::Error> {
            Ok(total.0)
        }
    }
    (n_entries(database.readers()).await, database.write(ReadTotal).await.unwrap())
}

/// Runs one statement.
pub(crate) struct Run(pub(crate) &'static str);

impl Job for Run {
    type State = Total;
    type Output = ();

    async fn apply(&self, conn: &mut Connection, _total: &mut Total) -> Result<(), sqlx::Error> {
        conn.run(self.0, &[]).await
    }
}
