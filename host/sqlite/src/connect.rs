//! Connections and the settings that make a commit durable.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use crate::disk;
use crate::error::OpenError;
use crate::limits::{
    CHECKPOINT_PAGES, LOG_BYTES_KEPT_MAX, READER_WAIT_MAX, STATEMENTS_CACHED_MAX, WRITER_CACHE_KIB,
};
use crate::options::Options;

/// How to reach one database, kept for as long as the writer may have to connect again.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) path: PathBuf,
    secure_delete: bool,
    busy_timeout: Duration,
}

impl Link {
    pub(crate) fn new(path: PathBuf, options: &Options) -> Self {
        Self { path, secure_delete: options.secure_delete, busy_timeout: options.busy_timeout }
    }

    /// A connection that changes nothing by connecting, to look at a file that may not be ours.
    pub(crate) async fn probe(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.plain().connect().await
    }

    /// The connection that writes, with every durability rule in force.
    pub(crate) async fn writer(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.plain()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            // On macOS a plain fsync leaves the data in the drive's cache; elsewhere these two do nothing.
            .pragma("fullfsync", "ON")
            .pragma("checkpoint_fullfsync", "ON")
            .pragma("secure_delete", if self.secure_delete { "ON" } else { "OFF" })
            .pragma("cache_size", format!("-{WRITER_CACHE_KIB}"))
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES.to_string())
            .pragma("journal_size_limit", LOG_BYTES_KEPT_MAX.to_string())
            .connect()
            .await
    }

    /// A connection that can only read and has nothing in memory yet: what it reads is what the files have now.
    pub(crate) async fn fresh_reader(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.plain().read_only(true).connect().await
    }

    /// The pool of connections that can only read.
    pub(crate) async fn readers(&self, n_readers: u32) -> Result<SqlitePool, sqlx::Error> {
        PoolOptions::new()
            .min_connections(n_readers)
            .max_connections(n_readers)
            .acquire_timeout(READER_WAIT_MAX)
            .idle_timeout(None)
            .max_lifetime(None)
            // A connection to a file does not go stale, and the test costs a round trip for each read.
            .test_before_acquire(false)
            .connect_with(self.plain().read_only(true))
            .await
    }

    fn plain(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.path)
            .foreign_keys(true)
            .busy_timeout(self.busy_timeout)
            .statement_cache_capacity(STATEMENTS_CACHED_MAX)
            .disable_statement_logging()
    }

    pub(crate) fn failed(&self, source: sqlx::Error) -> OpenError {
        failed(&self.path, source)
    }
}

/// Checks that SQLite took the settings: it answers a refused journal mode with the old one, not with an error.
pub(crate) async fn check_durable(link: &Link, conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let journal: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *conn).await.map_err(|e| link.failed(e))?;
    let synchronous: i64 =
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *conn).await.map_err(|e| link.failed(e))?;
    // 2 is FULL.
    if journal == "wal" && synchronous == 2 {
        return Ok(());
    }
    Err(OpenError::NotDurable { path: link.path.clone(), found: journal })
}

/// Ends a connection and waits until its file handles are closed; a failure here has nothing left to harm.
pub(crate) async fn disconnect(conn: SqliteConnection) {
    if let Err(error) = conn.close().await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a database connection did not close cleanly"
        );
    }
}

/// Primary result codes (sqlite.org/rescode.html) that an operator can act on, given their own variant.
fn failed(path: &Path, source: sqlx::Error) -> OpenError {
    const READONLY: i32 = 8;
    const CANTOPEN: i32 = 14;
    const NOTADB: i32 = 26;
    if disk::is_full(&source, path) {
        return OpenError::DiskFull { path: path.to_owned() };
    }
    let path = path.to_owned();
    match primary_code(&source) {
        Some(NOTADB) => OpenError::ForeignBytes { path },
        Some(READONLY | CANTOPEN) => OpenError::Unwritable { path, source: std::io::Error::other(source) },
        _ => OpenError::Failed { path, source },
    }
}

pub(crate) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}
