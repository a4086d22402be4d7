//! Read connections to either database.

use crate::database::location::{OpenError, is_postgres};
use crate::error::failed;
use crate::postgres::{self, PgReader, PgReaders};
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row};
use crate::sql::statements::Statements;
use crate::sqlite;
use gateway_engine::Unavailable;
use gateway_sqlite::Readers;
use std::fmt::Display;

#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Sqlite(Readers),
    Postgres(PgReaders),
}

/// One of the connections, in a read transaction or outside of one. Dropping it ends the transaction.
#[derive(Debug)]
pub(crate) enum Reader {
    Sqlite(gateway_sqlite::Connection),
    Postgres(PgReader),
}

impl Pool {
    /// Read-only connections to a store that a gateway may have open, whose schema is exactly that of this release.
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(match is_postgres(location) {
            true => Self::Postgres(postgres::reader(location).await?),
            false => Self::Sqlite(sqlite::reader(location).await?),
        })
    }

    pub(crate) const fn statements(&self) -> &'static Statements {
        match self {
            Self::Sqlite(_) => &sqlite::sql::STATEMENTS,
            Self::Postgres(_) => &postgres::sql::STATEMENTS,
        }
    }

    pub(crate) async fn acquire(&self) -> Result<Reader, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Reader::Sqlite(pool.acquire().await?),
            Self::Postgres(readers) => Reader::Postgres(readers.acquire().await?),
        })
    }

    /// The rows of a statement. `what` is the text of the error if it fails.
    pub(crate) async fn rows(
        &self,
        sql: &str,
        bound: &[Cell],
        what: impl Display + Send,
    ) -> Result<Vec<Row>, Unavailable> {
        let rows = match self {
            Self::Sqlite(pool) => async { pool.acquire().await?.rows(sql, bound).await }.await,
            Self::Postgres(readers) => readers.rows(sql, bound).await,
        };
        rows.map_err(|error| failed(what, &error))
    }

    /// Begins a read transaction: all its statements see one state.
    pub(crate) async fn snapshot(&self) -> Result<Reader, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Reader::Sqlite(pool.snapshot().await?),
            Self::Postgres(readers) => Reader::Postgres(readers.snapshot().await?),
        })
    }

    /// Open connections to a server, and how many of them are idle. `None` for a file.
    pub(crate) fn n_open_and_idle(&self) -> Option<(u32, u32)> {
        let Self::Postgres(PgReaders { pool, .. }) = self else { return None };
        let n_open = pool.size();
        Some((n_open, u32::try_from(pool.num_idle()).unwrap_or(u32::MAX).min(n_open)))
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(readers) => readers.pool.close().await,
        }
    }
}

impl Reader {
    /// Ends the transaction, so that the connection is free at once.
    pub(crate) async fn end(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(conn) => conn.end().await,
            Self::Postgres(reader) => reader.end().await,
        }
    }
}

impl Connection for Reader {
    fn statements(&self) -> &'static Statements {
        match self {
            Self::Sqlite(conn) => conn.statements(),
            Self::Postgres(reader) => reader.statements(),
        }
    }

    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::Sqlite(conn) => conn.rows(sql, bound).await,
            Self::Postgres(reader) => reader.rows(sql, bound).await,
        }
    }
}
