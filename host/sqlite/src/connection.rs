//! A connection as jobs, states and reads use it: the writer's, on its thread, or one of the readers'.

use std::fmt;

use crate::calls::{fault, rows_of};
use crate::lease::Lease;
use crate::options::Migration;
use crate::row::{Cell, FromCell, Row};

/// A connection to a SQLite database.
pub struct Connection(Kind);

enum Kind {
    /// Its calls are done when they return: a future that awaits nothing else is ready at once.
    Here(rusqlite::Connection),
    Lent(Lease),
}

impl Connection {
    pub(crate) const fn here(conn: rusqlite::Connection) -> Self {
        Self(Kind::Here(conn))
    }

    pub(crate) const fn lent(lease: Lease) -> Self {
        Self(Kind::Lent(lease))
    }

    /// A new database in memory, after these migrations, on the calling thread.
    pub fn in_memory(migrations: &[Migration]) -> Result<Self, sqlx::Error> {
        let open = || {
            let conn = rusqlite::Connection::open_in_memory()?;
            conn.pragma_update(None, "foreign_keys", "ON")?;
            migrations.iter().try_for_each(|migration| conn.execute_batch(migration.sql))?;
            Ok(conn)
        };
        open().map(Self::here).map_err(fault)
    }

    /// Runs statements, which `;` and a line feed separate, and returns their rows. The parameters `?1`, `?2`, … or `$1`, `$2`, … are the
    /// values of all of them.
    pub async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        match &mut self.0 {
            Kind::Here(conn) => rows_of(conn, sql, bound).map_err(fault),
            Kind::Lent(lease) => lease.rows(sql, bound).await,
        }
    }

    /// As [`Self::rows`], and returns the first row.
    pub async fn row(&mut self, sql: &str, bound: &[Cell]) -> Result<Option<Row>, sqlx::Error> {
        Ok(self.rows(sql, bound).await?.into_iter().next())
    }

    /// As [`Self::rows`], and returns the first column of the first row, which there is.
    ///
    /// # Errors
    /// [`sqlx::Error::RowNotFound`], and those of the statement and of [`Row::at`].
    pub async fn value<T: for<'c> FromCell<'c>>(
        &mut self,
        sql: &str,
        bound: &[Cell],
    ) -> Result<T, sqlx::Error> {
        self.row(sql, bound).await?.ok_or(sqlx::Error::RowNotFound)?.at(0)
    }

    /// As [`Self::rows`], for statements whose rows are not wanted.
    pub async fn run(&mut self, sql: &str, bound: &[Cell]) -> Result<(), sqlx::Error> {
        self.rows(sql, bound).await.map(drop)
    }

    /// Ends a snapshot's transaction, so that the connection is free at once, and closes a connection of no pool.
    pub async fn end(self) -> Result<(), sqlx::Error> {
        match self.0 {
            Kind::Here(conn) => conn.close().map_err(|(_, error)| fault(error)),
            Kind::Lent(lease) => lease.end().await,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
