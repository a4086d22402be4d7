//! The database under a store: a SQLite file with one writing process, or a PostgreSQL database that replicas share.

mod location;
mod pool;

use crate::change::{Change, CommitWrite, Counters, Write};
use crate::error::{failed, unavailable};
use crate::postgres::{Peers, Postgres, Presence};
use crate::sqlite::Sqlite;
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_engine::ports::RateLimited;
pub use location::{CopyError, OpenError, backup, is_postgres, production_fault, restore};
pub(crate) use pool::{Pool, Reader};
use std::fmt::Display;

/// An open database. Every write returns after it is durable.
#[derive(Debug)]
pub(crate) struct Database {
    pool: Pool,
    writer: Writer,
}

#[derive(Debug)]
enum Writer {
    Sqlite(Sqlite),
    Postgres(Postgres),
    /// For tools that read a store which a gateway may have open. Every write fails.
    ReadOnly,
}

impl Database {
    pub(crate) async fn open(location: &str, n_connections: u32) -> Result<Self, OpenError> {
        if is_postgres(location) {
            let database = Postgres::open(location, n_connections).await?;
            let pool = Pool::Postgres(database.readers().clone());
            return Ok(Self { pool, writer: Writer::Postgres(database) });
        }
        let database = Sqlite::open(location).await?;
        let pool = Pool::Sqlite(database.readers().clone());
        Ok(Self { pool, writer: Writer::Sqlite(database) })
    }

    pub(crate) async fn read_only(location: &str) -> Result<Self, OpenError> {
        Ok(Self { pool: Pool::open(location).await?, writer: Writer::ReadOnly })
    }

    /// Whether other processes may write at the same time.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.writer, Writer::Postgres(_) | Writer::ReadOnly)
    }

    pub(crate) const fn is_read_only(&self) -> bool {
        matches!(self.writer, Writer::ReadOnly)
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn counters(&self) -> Counters {
        match &self.writer {
            Writer::Sqlite(database) => database.counters(),
            Writer::Postgres(database) => database.counters(),
            Writer::ReadOnly => Counters::default(),
        }
    }

    /// As [`Store::meet`](crate::Store::meet).
    pub(crate) async fn meet(
        &self,
        presence: &Presence,
        may_write: impl FnOnce(&Peers) -> bool,
    ) -> Result<(), Unavailable> {
        match &self.writer {
            Writer::Sqlite(_) | Writer::ReadOnly => Ok(()),
            Writer::Postgres(database) => database.meet(presence, may_write).await,
        }
    }

    /// Finishes the queued writes. Later calls fail.
    pub(crate) async fn close(&self) {
        match &self.writer {
            Writer::Sqlite(database) => database.close().await,
            Writer::Postgres(database) => database.close().await,
            Writer::ReadOnly => self.pool.close().await,
        }
    }

    /// Runs a write. `what` is the text of the error if it fails.
    pub(crate) async fn write<W: Write>(
        &self,
        write: W,
        what: impl Display + Send,
    ) -> Result<W::Output, Unavailable> {
        match &self.writer {
            Writer::Sqlite(database) => database.write(write, what).await,
            Writer::Postgres(database) => database.write(write, what).await,
            Writer::ReadOnly => Err(read_only()),
        }
    }

    /// Writes a commit, as [`Self::write`].
    pub(crate) async fn commit(
        &self,
        commit: CommitWrite,
        what: impl Display + Send,
    ) -> Result<RateLimited<Hex32>, Unavailable> {
        match &self.writer {
            Writer::Postgres(database) => database.commit(commit, what).await,
            Writer::Sqlite(_) | Writer::ReadOnly => self.write(commit, what).await,
        }
    }

    /// Runs a change of which each statement stands by itself, beside the commits of operations if the database can do that.
    pub(crate) async fn write_apart<T: Change>(
        &self,
        change: T,
        what: impl Display + Send,
    ) -> Result<T::Output, Unavailable> {
        if !matches!(self.writer, Writer::Postgres(_)) {
            return self.write(change, what).await;
        }
        let written = async { change.run(&mut self.pool.acquire().await?).await };
        written.await.map_err(|error: sqlx::Error| failed(what, &error))
    }

    /// Runs a write that finds out whether the database can be written.
    pub(crate) async fn probe<W: Write>(&self, write: W) -> Result<W::Output, Unavailable> {
        let what = "the database cannot be written";
        match &self.writer {
            Writer::Sqlite(database) => database.probe(write, what).await,
            Writer::Postgres(_) | Writer::ReadOnly => self.write(write, what).await,
        }
    }
}

/// The error of every write to a store that is open for reading.
pub(crate) fn read_only() -> Unavailable {
    unavailable("the store is open for reading only")
}
