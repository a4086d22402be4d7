//! Read connections to either database. Rows are read with each column as stored, so that a damaged row can be reported.
//!
//! Both databases understand the same SQL with parameters `$1`, `$2`, ..., but for JSON and lists: [`Statements`].

use crate::error::has_code;
use crate::postgres::Server;
use crate::sql::row::{Cell, Row};
use crate::store::lists::Lists;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgRow, PgValueRef};
use sqlx::sqlite::{SqliteRow, SqliteValueRef};
use sqlx::{
    AssertSqlSafe, Column, Decode, PgConnection, PgPool, Postgres, Row as _, Sqlite, SqliteConnection,
    SqlitePool, Transaction, TypeInfo, ValueRef,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The SQL in which the databases differ.
#[derive(Debug)]
pub(crate) struct Statements {
    /// All events of the operations that may have changed a key (`$1`, hexadecimal) or a key that it replaced, and of the signing
    /// operations that fixed the family that these keys sign for.
    pub(crate) changes: &'static str,
    /// At most `$1` different quorums of keys that sign, from one to the next in an index.
    pub(crate) key_quorums: &'static str,
    /// Hashes of nodes of the log. `$1` is a JSON array of inner nodes, `$2` one of leaves. An inner node is one number,
    /// `level << 57 | position`: parsing pairs would take longer than finding the rows. No log has 2^57 events.
    pub(crate) log_nodes: &'static str,
    /// Events at the given indexes in the log; `$1` is a JSON array.
    pub(crate) events_at: &'static str,
    /// The table that counts the rows of numbered tables, also of those that are gone.
    pub(crate) counters: &'static str,
    /// The count of the numbered table `$1`, as `seq`.
    pub(crate) counted: &'static str,
    /// One number: bytes of the database.
    pub(crate) database_bytes: &'static str,
    pub(crate) lists: Lists,
}

/// Read connections.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgReaders),
}

/// Read connections to a server, which may stop answering.
#[derive(Clone, Debug)]
pub(crate) struct PgReaders {
    pub(crate) pool: PgPool,
    pub(crate) server: Arc<Server>,
    /// Time for the answer to one statement, after which the connection is given up.
    pub(crate) answer_within: Duration,
}

/// One of them. Dropped in the middle of a statement or of a transaction, it is closed, since waiting for the server's answer could take
/// as long as the network does; and after a failed statement, since the session may be at fault: a new one has the server's settings of
/// today.
#[derive(Debug)]
pub(crate) struct PgReader {
    conn: PoolConnection<Postgres>,
    answer_within: Duration,
    /// Whether a statement runs, or failed.
    is_unfit: bool,
    /// Whether a transaction is open.
    in_transaction: bool,
}

/// A read transaction: all its statements see one state.
#[derive(Debug)]
pub(crate) enum Snapshot {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(PgReader),
}

/// A connection that reads outside of a transaction.
pub(crate) enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PgReader),
}

impl Pool {
    pub(crate) const fn statements(&self) -> &'static Statements {
        match self {
            Self::Sqlite(_) => &crate::sqlite::STATEMENTS,
            Self::Postgres(_) => &crate::postgres::STATEMENTS,
        }
    }

    pub(crate) async fn acquire(&self) -> Result<Connection, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Connection::Sqlite(pool.acquire().await?),
            Self::Postgres(readers) => Connection::Postgres(readers.acquire().await?),
        })
    }

    /// The rows of a statement. A session that began while the server took no writes never takes any, so another one is tried.
    pub(crate) async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let mut n_sessions = match self {
            Self::Sqlite(_) => 1,
            Self::Postgres(readers) => readers.pool.options().get_max_connections(),
        };
        loop {
            let rows = self.acquire().await?.rows(sql, bound).await;
            n_sessions = n_sessions.saturating_sub(1);
            if n_sessions == 0 || !rows.as_ref().is_err_and(|error| has_code(error, &["25006"])) {
                return rows;
            }
        }
    }

    /// Begins a transaction. Dropping it ends it.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Snapshot::Sqlite(pool.begin().await?),
            Self::Postgres(readers) => {
                let mut reader = readers.acquire().await?;
                reader.in_transaction = true;
                reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
                Snapshot::Postgres(reader)
            }
        })
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(readers) => readers.pool.close().await,
        }
    }
}

impl PgReaders {
    async fn acquire(&self) -> Result<PgReader, sqlx::Error> {
        let conn = match self.pool.acquire().await {
            Err(error) if has_code(&error, &["28"]) => {
                // The password may be another one by now.
                self.pool.set_connect_options(self.server.options());
                self.pool.acquire().await?
            }
            conn => conn?,
        };
        Ok(PgReader { conn, answer_within: self.answer_within, is_unfit: false, in_transaction: false })
    }
}

impl PgReader {
    /// Awaits the answer to a statement.
    async fn answer<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.is_unfit = true;
        let answer = timeout(self.answer_within, statement(&mut self.conn)).await;
        let late = || {
            let seconds = self.answer_within.as_secs();
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the database server did not answer within {seconds} s"),
            )
        };
        let answer = answer.map_err(|_| sqlx::Error::Io(late()))??;
        self.is_unfit = false;
        Ok(answer)
    }

    /// The connection, whose statements are then not limited in time.
    pub(crate) fn conn(&mut self) -> &mut PgConnection {
        &mut self.conn
    }

    async fn run(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        self.answer(async |conn| sqlx::query(sql).execute(conn).await.map(drop)).await
    }
}

impl ReadRows for PgReader {
    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        self.answer(async |conn| ReadRows::rows(conn, sql, bound).await).await
    }
}

impl Drop for PgReader {
    fn drop(&mut self) {
        if self.is_unfit || self.in_transaction {
            self.conn.close_on_drop();
        }
    }
}

impl ReadRows for Connection {
    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(conn) => ReadRows::rows(&mut **conn, sql, bound).await,
            Self::Postgres(reader) => reader.rows(sql, bound).await,
        }
    }
}

impl Snapshot {
    /// Ends the transaction, so that the connection is free at once.
    pub(crate) async fn end(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(tx) => tx.commit().await,
            Self::Postgres(mut reader) => {
                reader.run("COMMIT").await?;
                reader.in_transaction = false;
                Ok(())
            }
        }
    }

    pub(crate) async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(tx) => ReadRows::rows(&mut **tx, sql, bound).await,
            Self::Postgres(reader) => reader.rows(sql, bound).await,
        }
    }
}

/// A connection that reads rows.
pub(crate) trait ReadRows: Send {
    /// The rows of a statement.
    fn rows(
        &mut self,
        sql: &str,
        bound: &[Cell],
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;
}

/// Binds the cells, in order. Fractions are never bound.
macro_rules! bind {
    ($sql:expr, $bound:expr) => {
        $bound.iter().fold(sqlx::query(AssertSqlSafe($sql)), |query, cell| match cell {
            Cell::Null | Cell::Real => query.bind(None::<&[u8]>),
            Cell::Integer(number) => query.bind(*number),
            Cell::Text(bytes) => match str::from_utf8(bytes) {
                Ok(text) => query.bind(text),
                // SQLite stores text that is not valid UTF-8; the statements cast these bytes back.
                Err(_) => query.bind(bytes.as_slice()),
            },
            Cell::Blob(bytes) => query.bind(bytes.as_slice()),
        })
    };
}

impl ReadRows for SqliteConnection {
    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let rows = bind!(sql, bound).fetch_all(self).await?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let names = names(first.columns());
        let cell = |row: &SqliteRow, index| sqlite_cell(row.try_get_raw(index)?);
        let row = |row: &SqliteRow| (0..row.len()).map(|index| cell(row, index)).collect::<Result<_, _>>();
        rows.iter().map(|stored| Ok(Row::new(Arc::clone(&names), row(stored)?))).collect()
    }
}

impl ReadRows for PgConnection {
    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let rows = bind!(sql, bound).fetch_all(self).await?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let names = names(first.columns());
        let cell = |row: &PgRow, index| postgres_cell(row.try_get_raw(index)?);
        let row = |row: &PgRow| (0..row.len()).map(|index| cell(row, index)).collect::<Result<_, _>>();
        rows.iter().map(|stored| Ok(Row::new(Arc::clone(&names), row(stored)?))).collect()
    }
}

fn names<C: Column>(columns: &[C]) -> Arc<[String]> {
    columns.iter().map(|column| column.name().to_owned()).collect()
}

fn sqlite_cell(value: SqliteValueRef<'_>) -> Result<Cell, sqlx::Error> {
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

fn postgres_cell(value: PgValueRef<'_>) -> Result<Cell, sqlx::Error> {
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let kind = value.type_info().into_owned();
    let cell = match kind.name() {
        "INT8" => <i64 as Decode<Postgres>>::decode(value).map(Cell::Integer),
        "BOOL" => <bool as Decode<Postgres>>::decode(value).map(Cell::from),
        "TEXT" | "NAME" => <&str as Decode<Postgres>>::decode(value).map(Cell::from),
        "BYTEA" => <Vec<u8> as Decode<Postgres>>::decode(value).map(Cell::Blob),
        _ => Ok(Cell::Real),
    };
    cell.map_err(sqlx::Error::Decode)
}
