//! The database under a store: a SQLite file with one writing process, or a PostgreSQL database that replicas share.

use crate::encode::policies::{ActivationRow, BundleRows};
use crate::encode::{DecisionRow, EvaluationRow, Rows, TokenRow};
use crate::error::OpenError;
use crate::postgres::{self, Postgres};
use crate::rows::Pool;
use crate::sqlite::{self, Sqlite};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, RateLimited};
use std::fmt::Display;

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
}

/// Whether the location is a PostgreSQL database.
pub(crate) fn is_postgres(location: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| location.starts_with(scheme))
}

impl Database {
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(match is_postgres(location) {
            true => Self::Postgres(Postgres::open(location).await?),
            false => Self::Sqlite(Sqlite::open(location).await?),
        })
    }

    /// Whether other processes may write at the same time.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    pub(crate) const fn pool(&self) -> &Pool {
        match self {
            Self::Sqlite(database) => database.pool(),
            Self::Postgres(database) => database.pool(),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        match self {
            Self::Sqlite(database) => database.counters(),
            Self::Postgres(database) => database.counters(),
        }
    }

    /// Finishes the queued writes. Later calls fail.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(database) => database.close().await,
            Self::Postgres(database) => database.close().await,
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
        }
    }

    /// Writes a probe.
    pub(crate) async fn probe(&self, at: EpochMs) -> Result<(), Unavailable> {
        match self {
            Self::Sqlite(database) => database.probe(at).await,
            Self::Postgres(database) => database.probe(at).await,
        }
    }
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
