//! A read transaction over the whole database.

use super::Stop;
use crate::database::Reader;
use crate::error::{OpenError, failed};
use crate::sql::row::{Cell, Row};
use crate::sql::rows;
use crate::{postgres, sqlite};

/// SQLITE_CORRUPT (sqlite.org/rescode.html).
const CORRUPT: i32 = 11;

/// Corrupted data, and a corrupted index (PostgreSQL, appendix A).
const CORRUPTED: [&str; 2] = ["XX001", "XX002"];

/// A read transaction, which does not see later writes.
#[derive(Debug)]
pub(crate) struct Snapshot {
    rows: rows::Snapshot,
    reader: Reader,
}

impl Snapshot {
    /// Begins the transaction; it sees the state at its first read.
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        let reader = Reader::open(location).await?;
        let rows = reader.pool().snapshot().await.map_err(OpenError::Snapshot)?;
        Ok(Self { rows, reader })
    }

    /// The rows of a statement, with each column as stored.
    pub(crate) async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, Stop> {
        self.rows.rows(sql, bound).await.map_err(stop)
    }

    /// The SQL of this database.
    pub(crate) const fn statements(&self) -> &'static rows::Statements {
        self.reader.pool().statements()
    }

    /// The tables, indexes and so on that differ from those that the migrations create, and how.
    pub(crate) async fn schema_faults(&mut self) -> Result<Vec<(String, &'static str)>, Stop> {
        match &mut self.rows {
            rows::Snapshot::Sqlite(tx) => sqlite::schema::faults(tx).await,
            rows::Snapshot::Postgres(reader) => {
                postgres::schema::faults(reader.conn(), self.reader.pool()).await
            }
        }
        .map_err(stop)
    }

    /// Whether this is a file.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self.rows, rows::Snapshot::Sqlite(_))
    }

    /// Names of the migrations, in order.
    pub(crate) fn migrations(&self) -> Vec<&'static str> {
        if self.is_file() { sqlite::schema::migrations().collect() } else { postgres::schema::migrations() }
    }

    pub(crate) async fn close(self) {
        drop(self.rows);
        self.reader.close().await;
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
