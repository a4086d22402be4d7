//! PostgreSQL: replicas share one database. Each has one connection that writes, and some that read.
//!
//! A writing transaction first locks the row with the end of the log (`ledger_head`), so that the log has one order whichever replica
//! appends. It has all the changes that wait at that moment: one lock and one sync of the disk for all of them, and one statement for all
//! commits of operations. Nothing else of a request waits for other replicas.

mod arrays;
mod commits;
mod connect;
mod job;
mod migrate;
mod readers;
mod replicas;
pub(crate) mod schema;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
mod writer;

use crate::change::{CommitWrite, Counters, Write};
use crate::error::failed;
use connect::Server;
pub(crate) use connect::production_fault;
pub use connect::{CONNECTIONS, OpenError};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::RateLimited;
use job::WriteError;
pub(crate) use readers::{PgReader, PgReaders};
use replicas::MayWrite;
pub use replicas::{Peer, Peers, Presence};
use std::fmt::Display;
use std::sync::Arc;
use writer::Writer;

/// An open database. Dropping it lets queued writes finish.
#[derive(Debug)]
pub(crate) struct Postgres {
    writer: Writer,
    readers: PgReaders,
    may_write: Arc<MayWrite>,
}

impl Postgres {
    /// Opens the database that the URL names, which must exist, and brings its schema up to date.
    /// `n_connections` are at most open at the same time, at least two.
    pub(crate) async fn open(url: &str, n_connections: u32) -> Result<Self, OpenError> {
        let server = Server::parse(url)?;
        server.check_sessions().await?;
        let mut conn = server.connect().await?;
        connect::check_room(&server, &mut conn, n_connections).await?;
        migrate::run(&server, &mut conn).await?;
        let readers = PgReaders::of_replica(&server, n_connections.saturating_sub(1).max(1)).await?;
        let mut replica = [0; 16];
        getrandom::fill(&mut replica).map_err(|error| OpenError::Randomness { reason: error.to_string() })?;
        // The name is random, so that each process is another replica.
        let may_write = Arc::new(MayWrite::new(replica));
        let writer = Writer::start(server, conn, Arc::clone(&may_write)).await?;
        Ok(Self { writer, readers, may_write })
    }

    pub(crate) const fn readers(&self) -> &PgReaders {
        &self.readers
    }

    /// As [`Store::meet`](crate::Store::meet).
    pub(crate) async fn meet(
        &self,
        presence: &Presence,
        may_write: impl FnOnce(&Peers) -> bool,
    ) -> Result<(), Unavailable> {
        let (peers, since) = replicas::meet(&self.readers, self.may_write.replica(), presence).await?;
        self.may_write.set(may_write(&peers).then_some(since));
        Ok(())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.writer.counters()
    }

    pub(crate) async fn close(&self) {
        // If that fails, its row expires.
        let _ = replicas::leave(&self.readers, self.may_write.replica()).await;
        self.readers.pool.close().await;
        self.writer.close().await;
    }

    /// Runs a write. `what` is the text of the error if it fails.
    pub(crate) async fn write<W: Write>(
        &self,
        write: W,
        what: impl Display,
    ) -> Result<W::Output, Unavailable> {
        self.writer.write(write).await.map_err(|error| unavailable_as(what, &error))
    }

    /// Writes a commit, in one statement with others that wait.
    pub(crate) async fn commit(
        &self,
        commit: CommitWrite,
        what: impl Display,
    ) -> Result<RateLimited<Hex32>, Unavailable> {
        self.writer.commit(commit).await.map_err(|error| unavailable_as(what, &error))
    }
}

fn unavailable_as(what: impl Display, error: &WriteError) -> Unavailable {
    if error.is_disk_full() {
        return failed(format_args!("{what}: the disk is full"), error);
    }
    failed(what, error)
}

/// Connects once, and changes nothing.
pub(crate) async fn reach(url: &str) -> Result<(), OpenError> {
    let server = Server::parse(url)?;
    let conn = server.connect().await?;
    sqlx::Connection::close(conn).await.map_err(|error| server.failed(error))
}

/// Checks server and schema, as [`Postgres::open`] does, and changes nothing. Returns the server's clock.
pub(crate) async fn check(url: &str) -> Result<EpochMs, OpenError> {
    let server = Server::parse(url)?;
    server.check_sessions().await?;
    let mut conn = server.connect().await?;
    migrate::check_current(&server, &mut conn).await?;
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let now: i64 =
        sqlx::query_scalar(sql).fetch_one(&mut conn).await.map_err(|error| server.failed(error))?;
    Ok(EpochMs(u64::try_from(now).unwrap_or_default()))
}

/// Read-only connections to a database that gateways may have open.
pub(crate) async fn reader(url: &str) -> Result<PgReaders, OpenError> {
    let server = Server::parse(url)?;
    let readers = PgReaders::of_tool(&server).await?;
    let mut conn = readers.pool.acquire().await.map_err(|error| server.failed(error))?;
    migrate::check_current(&server, &mut conn).await?;
    drop(conn);
    Ok(readers)
}
