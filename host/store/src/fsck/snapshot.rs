//! A read transaction over the whole database.

use crate::database::{OpenError, Pool, Reader};
use crate::error::failed;
use crate::sql::connection::Connection as _;
use crate::sql::row::{Cell, Row};
use crate::sql::statements::Statements;
use crate::{postgres, sqlite};
use gateway_engine::Unavailable;

/// SQLITE_CORRUPT (sqlite.org/rescode.html).
const CORRUPT: i32 = 11;

/// Corrupted data, and a corrupted index (PostgreSQL, appendix A).
const CORRUPTED: [&str; 2] = ["XX001", "XX002"];

/// Why a part of the check ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The database cannot read damaged pages of its files. This is reported as a finding.
    Damaged,
    /// The database could not be read for another reason.
    Failed(Unavailable),
}

/// A read transaction, which does not see later writes.
#[derive(Debug)]
pub(super) struct Snapshot {
    reader: Reader,
    pool: Pool,
}

impl Snapshot {
    /// Begins the transaction; it sees the state at its first read.
    pub(super) async fn open(location: &str) -> Result<Self, OpenError> {
        let pool = Pool::open(location).await?;
        Ok(Self { reader: pool.snapshot().await.map_err(OpenError::Snapshot)?, pool })
    }

    /// The rows of a statement, with each column as stored.
    pub(super) async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, Stop> {
        self.reader.rows(sql, bound).await.map_err(stop)
    }

    pub(super) const fn statements(&self) -> &'static Statements {
        self.pool.statements()
    }

    /// The tables, indexes and so on that differ from those that the migrations create, and how.
    pub(super) async fn schema_faults(&mut self) -> Result<Vec<(String, &'static str)>, Stop> {
        match (&mut self.reader, &self.pool) {
            (Reader::Postgres(reader), Pool::Postgres(readers)) => {
                postgres::schema::faults(reader.conn(), readers).await
            }
            (Reader::Sqlite(conn), _) => sqlite::schema_faults(conn).await,
            (Reader::Postgres(_), Pool::Sqlite(_)) => Ok(Vec::new()),
        }
        .map_err(stop)
    }

    pub(super) const fn is_file(&self) -> bool {
        matches!(self.pool, Pool::Sqlite(_))
    }

    pub(super) fn migrations(&self) -> Vec<&'static str> {
        if self.is_file() { sqlite::migrations() } else { postgres::schema::migrations() }
    }

    pub(super) async fn close(self) {
        drop(self.reader);
        self.pool.close().await;
    }
}

fn stop(error: sqlx::Error) -> Stop {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code).unwrap_or_default();
    let is_corrupt = code.parse::<i32>().is_ok_and(|code| code & 0xff == CORRUPT);
    if is_corrupt || CORRUPTED.contains(&&*code) {
        return Stop::Damaged;
    }
    Stop::Failed(failed("the database could not be read", &error))
}
