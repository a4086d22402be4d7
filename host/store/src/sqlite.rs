//! SQLite: one file, one writer that commits waiting writes together, and read-only connections.

pub(crate) mod sql;
#[cfg(test)]
mod tests;

use crate::change::{Counters, InTurn, Write};
use crate::error::{failed, unavailable};
use crate::record::frontier::{self, LogFrontier};
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row};
use crate::sql::statements::Statements;
use gateway_engine::Unavailable;
use gateway_sqlite::{
    ApplicationId, BETWEEN_STATEMENTS, CopyError, Database, Job, Migration, OpenError, Options, Reader,
    Readers, State, WriteError, check_writable, schema,
};
use std::error::Error;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a database file as the gateway's.
const APPLICATION_ID: ApplicationId = ApplicationId::new(*b"OpGw");

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "store", sql: include_str!("../migrations/sqlite/0001_store.sql") },
    Migration { version: 2, name: "spending", sql: gateway_spending::SCHEMA },
];

/// After a restart, every operation is tried at once.
const END_WAITS: &str = "UPDATE operations SET due_ms = 0, waited_ms = 0
    WHERE operation_id IN (SELECT operation_id FROM operations WHERE owes = 1) AND due_ms > 0";

/// An open SQLite file, which this process alone writes. Dropping it lets queued writes finish.
#[derive(Debug)]
pub(crate) struct Sqlite {
    database: Database<LogFrontier>,
    n_statements: Arc<AtomicU64>,
}

impl Sqlite {
    /// Opens the database at `location` and brings its schema up to date. Creates a missing file, and its folder.
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        let database = Database::open(options(location)?.create()).await?;
        let opened = Self { database, n_statements: Arc::default() };
        // A failure shows at the next write. Until then operations wait, for a minute at most.
        let _waits_end_anyway =
            opened.write(InTurn(vec![(END_WAITS, vec![])]), "the waits could not be ended").await;
        Ok(opened)
    }

    pub(crate) fn readers(&self) -> &Readers {
        self.database.readers()
    }

    pub(crate) fn counters(&self) -> Counters {
        let gateway_sqlite::Counters { jobs, commits: transactions, rollbacks } = self.database.counters();
        Counters { jobs, transactions, rollbacks, statements: self.n_statements.load(Ordering::Relaxed) }
    }

    pub(crate) async fn close(&self) {
        self.database.close().await;
    }

    /// Runs a write. `what` is the text of the error if it fails. If the disk is full, the error says so, and the log has the path.
    pub(crate) async fn write<W: Write>(
        &self,
        write: W,
        what: impl Display,
    ) -> Result<W::Output, Unavailable> {
        self.run(write).await.map_err(|error| match self.database.full_disk() {
            Some(path) => {
                let path = path.display();
                tracing::error!(error = &error as &dyn Error, "{what}: the disk with `{path}` is full");
                unavailable(format_args!("{what}: the disk is full"))
            }
            None => failed(what, &error),
        })
    }

    /// As [`Self::write`], but the operator who reads this error needs to know which disk needs room.
    pub(crate) async fn probe<W: Write>(
        &self,
        write: W,
        what: impl Display,
    ) -> Result<W::Output, Unavailable> {
        self.run(write).await.map_err(|error| match self.database.full_disk() {
            Some(path) => unavailable(format_args!("the disk with `{}` is full", path.display())),
            None => failed(what, &error),
        })
    }

    async fn run<W: Write>(&self, write: W) -> Result<W::Output, WriteError> {
        self.database.write(WriteJob { write, n_statements: Arc::clone(&self.n_statements) }).await
    }
}

fn options(location: &str) -> Result<Options, OpenError> {
    Options::at(location, APPLICATION_ID, MIGRATIONS)
}

/// Whether a database file exists at `location`. Creates nothing.
pub(crate) fn exists(location: &str) -> Result<bool, OpenError> {
    Ok(options(location)?.exists())
}

/// Checks that the file can be read as this release writes it, and that it could be written.
pub(crate) async fn check(location: &str) -> Result<(), OpenError> {
    let options = options(location)?;
    check_writable(&options)?;
    Reader::open(options).await?.close().await;
    Ok(())
}

/// One read-only connection to a file that another process may have open.
pub(crate) async fn reader(location: &str) -> Result<Readers, OpenError> {
    Ok(Reader::open(options(location)?).await?.readers().clone())
}

/// The objects of the schema that differ from those that the migrations create, and how.
pub(crate) async fn schema_faults(
    conn: &mut gateway_sqlite::Connection,
) -> Result<Vec<(String, &'static str)>, sqlx::Error> {
    let stored = schema::objects(conn).await?;
    Ok(schema::differences(stored, schema::expected(MIGRATIONS).await?))
}

/// Names of the migrations, in order.
pub(crate) fn migrations() -> Vec<&'static str> {
    MIGRATIONS.iter().map(|migration| migration.name).collect()
}

/// Writes a copy of the database at `location` to a new file, also while a gateway writes.
pub(crate) async fn backup(
    location: &str,
    to: &Path,
    on_progress: impl FnMut(u64, u64),
) -> Result<(), CopyError> {
    let reader = Reader::open(options(location)?).await?;
    let copied = reader.copy_to(to, on_progress).await;
    reader.close().await;
    copied
}

/// Puts a copy in the place of the database at `location`.
pub(crate) async fn restore(location: &str, copy: &Path) -> Result<Option<PathBuf>, CopyError> {
    gateway_sqlite::restore(options(location)?, copy).await
}

impl State for LogFrontier {
    async fn load(conn: &mut gateway_sqlite::Connection) -> Result<Self, sqlx::Error> {
        frontier::load_and_check(conn).await
    }
}

struct WriteJob<W> {
    write: W,
    n_statements: Arc<AtomicU64>,
}

impl<W: Write> Job for WriteJob<W> {
    type State = LogFrontier;
    type Output = W::Output;

    async fn apply(
        &self,
        conn: &mut gateway_sqlite::Connection,
        log: &mut LogFrontier,
    ) -> Result<W::Output, sqlx::Error> {
        let mut conn = Counted { conn, n_statements: 0 };
        let output = self.write.run(&mut conn, log).await?;
        self.n_statements.fetch_add(conn.n_statements, Ordering::Relaxed);
        Ok(output)
    }
}

struct Counted<'a> {
    conn: &'a mut gateway_sqlite::Connection,
    n_statements: u64,
}

impl Connection for Counted<'_> {
    fn statements(&self) -> &'static Statements {
        self.conn.statements()
    }

    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let n_statements = sql.split(BETWEEN_STATEMENTS).count() as u64;
        self.n_statements = self.n_statements.saturating_add(n_statements);
        self.conn.rows(sql, bound).await
    }
}
