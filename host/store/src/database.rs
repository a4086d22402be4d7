//! The database under a store: a SQLite file with one writing process, or a PostgreSQL database that replicas share.

use crate::error::{CopyError, OpenError, unavailable};
use crate::postgres::{self, Peers, Postgres, Presence};
use crate::record::encode::policies::{ActivationRow, BundleRows};
use crate::record::encode::{DecisionRow, EvaluationRow, Rows, TokenRow};
use crate::sql::rows::Pool;
use crate::sqlite::{self, Sqlite};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, RateLimited};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Totals of the writes since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits run in a transaction, conflicts included.
    pub jobs: u64,
    /// Transactions committed; several jobs may share one.
    pub transactions: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// SQL statements run for jobs; BEGIN and COMMIT are not counted.
    pub statements: u64,
}

/// An open database. Every write returns after it is durable.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
    /// For tools that read a store which a gateway may have open. Every write fails.
    ReadOnly(Reader),
}

/// Whether the location is a PostgreSQL database, which replicas share.
#[must_use]
pub fn is_postgres(location: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| location.starts_with(scheme))
}

/// Writes a copy of the store at `location` to a new file, also while a gateway writes. `on_progress` gets the bytes written so far, and
/// about how many there will be.
///
/// # Errors
/// [`CopyError`]. A PostgreSQL database is refused: it is copied with PostgreSQL's own programs.
pub async fn backup(location: &str, to: &Path, on_progress: impl FnMut(u64, u64)) -> Result<(), CopyError> {
    refuse_postgres(location)?;
    Ok(Sqlite::backup(location, to, on_progress).await?)
}

/// Puts a copy, which the caller has checked, in the place of the store at `location`, which no gateway may have open. Returns the file
/// in which the store that was there is kept.
pub async fn restore(location: &str, copy: &Path) -> Result<Option<PathBuf>, CopyError> {
    refuse_postgres(location)?;
    Ok(Sqlite::restore(location, copy).await?)
}

fn refuse_postgres(location: &str) -> Result<(), CopyError> {
    if is_postgres(location) { Err(CopyError::Postgres) } else { Ok(()) }
}

/// What forbids this location in production, to follow the name of its setting.
#[must_use]
pub fn production_fault(location: &str) -> Option<&'static str> {
    if is_postgres(location) { postgres::production_fault(location) } else { None }
}

impl Database {
    pub(crate) async fn open(location: &str, n_connections: u32) -> Result<Self, OpenError> {
        Ok(match is_postgres(location) {
            true => Self::Postgres(Postgres::open(location, n_connections).await?),
            false => Self::Sqlite(Sqlite::open(location).await?),
        })
    }

    /// Whether other processes may write at the same time.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_) | Self::ReadOnly(_))
    }

    pub(crate) const fn pool(&self) -> &Pool {
        match self {
            Self::Sqlite(database) => database.pool(),
            Self::Postgres(database) => database.pool(),
            Self::ReadOnly(reader) => reader.pool(),
        }
    }

    /// Open read connections to a server, and how many of them are idle. `None` for a file.
    pub(crate) fn readers(&self) -> Option<(u32, u32)> {
        let Pool::Postgres(readers) = self.pool() else { return None };
        let n_open = readers.pool.size();
        Some((n_open, u32::try_from(readers.pool.num_idle()).unwrap_or(u32::MAX).min(n_open)))
    }

    pub(crate) fn counters(&self) -> Counters {
        match self {
            Self::Sqlite(database) => database.counters(),
            Self::Postgres(database) => database.counters(),
            Self::ReadOnly(_) => Counters::default(),
        }
    }

    /// As [`Store::meet`](crate::Store::meet).
    pub(crate) async fn meet(
        &self,
        presence: &Presence,
        may_write: impl FnOnce(&Peers) -> bool,
    ) -> Result<(), Unavailable> {
        match self {
            Self::Sqlite(_) | Self::ReadOnly(_) => Ok(()),
            Self::Postgres(database) => database.meet(presence, may_write).await,
        }
    }

    /// Finishes the queued writes. Later calls fail.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(database) => database.close().await,
            Self::Postgres(database) => database.close().await,
            Self::ReadOnly(reader) => reader.close().await,
        }
    }

    /// Writes a commit, and takes the token if there is one. Returns the log's root after it.
    pub(crate) async fn commit(
        &self,
        rows: Rows,
        token: Option<TokenRow>,
        what: impl Display + Send,
    ) -> Result<RateLimited<Hex32>, Unavailable> {
        match self {
            Self::Sqlite(database) => database.commit(rows, token, what).await,
            Self::Postgres(database) => database.commit(rows, token, what).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }

    /// Writes a decision that changed no operation, and takes the token if there is one.
    pub(crate) async fn decision(
        &self,
        row: DecisionRow,
        token: Option<TokenRow>,
        what: impl Display + Send,
    ) -> Result<RateLimited<()>, Unavailable> {
        match self {
            Self::Sqlite(database) => database.decision(row, token, what).await,
            Self::Postgres(database) => database.decision(row, token, what).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }

    /// Writes previews, of which there is at least one, and deletes all but the `n_kept` newest.
    pub(crate) async fn previews(
        &self,
        rows: Vec<EvaluationRow>,
        n_kept: u32,
        what: impl Display + Send,
    ) -> Result<(), Unavailable> {
        match self {
            Self::Sqlite(database) => database.previews(rows, n_kept, what).await,
            Self::Postgres(database) => database.previews(rows, n_kept, what).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }

    /// Writes an activation, if its sequence is above the last one's.
    pub(crate) async fn activation(
        &self,
        activation: ActivationRow,
        bundle: BundleRows,
        what: impl Display + Send,
    ) -> Result<Activated, Unavailable> {
        match self {
            Self::Sqlite(database) => database.activation(activation, bundle, what).await,
            Self::Postgres(database) => database.activation(activation, bundle, what).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }

    /// Writes a probe.
    pub(crate) async fn probe(&self, at: EpochMs) -> Result<(), Unavailable> {
        match self {
            Self::Sqlite(database) => database.probe(at).await,
            Self::Postgres(database) => database.probe(at).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }
}

/// The error of every write to a store that is open for reading.
pub(crate) fn read_only() -> Unavailable {
    unavailable("the store is open for reading only")
}

/// A read-only connection to a store that a gateway may have open, whose schema is exactly that of this release.
#[derive(Debug)]
pub(crate) struct Reader {
    pool: Pool,
}

impl Reader {
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        let pool = match is_postgres(location) {
            true => postgres::reader(location).await?,
            false => sqlite::reader(location).await?,
        };
        Ok(Self { pool })
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}
