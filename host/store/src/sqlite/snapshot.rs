//! A read transaction over the whole database, for `fsck`.

use super::{APPLICATION_ID, MIGRATIONS};
use crate::error::failed;
use crate::fsck::Stop;
use crate::row::{Cell, Row};
use gateway_sqlite::schema::{self, Object};
use gateway_sqlite::{OpenError, Options, Reader};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteRow, SqliteValueRef};
use sqlx::{AssertSqlSafe, Column, Decode, Row as _, Sqlite, SqliteConnection, TypeInfo, ValueRef};
use std::sync::Arc;

/// SQLITE_CORRUPT (sqlite.org/rescode.html).
const CORRUPT: i32 = 11;

/// A read transaction, which does not see later writes.
#[derive(Debug)]
pub(crate) struct Snapshot {
    conn: PoolConnection<Sqlite>,
    reader: Reader,
}

impl Snapshot {
    /// Begins the transaction; it sees the state at its first read.
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        let options = Options::at(location, APPLICATION_ID, MIGRATIONS)?;
        let reader = Reader::open(options).await?;
        let begin = async {
            let mut conn = reader.pool().acquire().await?;
            sqlx::query("BEGIN").execute(&mut *conn).await?;
            Ok(conn)
        };
        let failed = |source| OpenError::Failed { path: location.into(), source };
        let conn = begin.await.map_err(failed)?;
        Ok(Self { conn, reader })
    }

    /// The rows of a statement, with each column as stored.
    pub(crate) async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, Stop> {
        rows(&mut self.conn, sql, bound).await.map_err(stop)
    }

    /// The schema, sorted by name, without the objects of SQLite and the migrator.
    pub(crate) async fn schema(&mut self) -> Result<Vec<Object>, Stop> {
        schema::objects(&mut self.conn).await.map_err(stop)
    }

    pub(crate) async fn close(self) {
        drop(self.conn);
        self.reader.close().await;
    }
}

/// The rows of a statement, with each column as stored.
pub(crate) async fn rows(
    conn: &mut SqliteConnection,
    sql: &str,
    bound: &[Cell],
) -> Result<Vec<Row>, sqlx::Error> {
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for cell in bound {
        query = match cell {
            Cell::Null | Cell::Real => query.bind(None::<i64>),
            Cell::Integer(number) => query.bind(*number),
            Cell::Text(bytes) => match str::from_utf8(bytes) {
                Ok(text) => query.bind(text),
                // Stored text may not be valid UTF-8; the statements cast these bytes back.
                Err(_) => query.bind(bytes.as_slice()),
            },
            Cell::Blob(bytes) => query.bind(bytes.as_slice()),
        };
    }
    let rows = query.fetch_all(conn).await?;
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let names: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    rows.iter().map(|row| Ok(Row::new(Arc::clone(&names), cells(row)?))).collect()
}

/// The schema of a new database.
pub(crate) async fn schema_expected() -> Result<Vec<Object>, Stop> {
    schema::expected(MIGRATIONS).await.map_err(stop)
}

/// Names of the migrations, in order.
pub(crate) fn migrations() -> impl Iterator<Item = &'static str> {
    MIGRATIONS.iter().map(|migration| migration.name)
}

fn cells(row: &SqliteRow) -> Result<Vec<Cell>, sqlx::Error> {
    (0..row.len()).map(|index| cell(row.try_get_raw(index)?)).collect()
}

fn cell(value: SqliteValueRef<'_>) -> Result<Cell, sqlx::Error> {
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let kind = value.type_info().into_owned();
    let cell = match kind.name() {
        "INTEGER" => <i64 as Decode<Sqlite>>::decode(value).map(Cell::Integer),
        "TEXT" => <Vec<u8> as Decode<Sqlite>>::decode(value).map(Cell::Text),
        "BLOB" => <Vec<u8> as Decode<Sqlite>>::decode(value).map(Cell::Blob),
        _ => Ok(Cell::Real),
    };
    cell.map_err(sqlx::Error::Decode)
}

fn stop(error: sqlx::Error) -> Stop {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    match code {
        Some(code) if code & 0xff == CORRUPT => Stop::Damaged,
        _ => Stop::Failed(failed("the database could not be read", &error)),
    }
}
