//! What a location names, and what can be done with it without opening it as a store.

use crate::{postgres, sqlite};
use std::path::{Path, PathBuf};

/// Why [`Store::open`](crate::Store::open) failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The SQLite database could not be opened. Its message is one line for an operator.
    #[error(transparent)]
    Sqlite(#[from] gateway_sqlite::OpenError),
    /// The PostgreSQL database could not be opened. Its message is one line for an operator.
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
    /// No read transaction could be begun.
    #[error("the database cannot be read")]
    Snapshot(#[source] sqlx::Error),
}

/// Why a copy was not made, or not put in place.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file could not be read or written. The message is one line for an operator.
    #[error(transparent)]
    Sqlite(#[from] gateway_sqlite::CopyError),
    /// The store is a PostgreSQL database.
    #[error("copies of a PostgreSQL database are made with `pg_dump`, as host/docs/operations.md describes")]
    Postgres,
}

impl OpenError {
    /// Whether the database's server does not answer, or not yet.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Postgres(postgres::OpenError::Unreachable { .. }))
    }

    /// Whether an earlier release made the database, which the next start brings up to date.
    #[must_use]
    pub const fn is_old_schema(&self) -> bool {
        matches!(
            self,
            Self::Sqlite(gateway_sqlite::OpenError::OldSchema { .. })
                | Self::Postgres(postgres::OpenError::OldSchema { .. })
        )
    }
}

/// Whether the location is a PostgreSQL database, which replicas share.
#[must_use]
pub fn is_postgres(location: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| location.starts_with(scheme))
}

/// Writes a copy of the store at `location` to a new file, also while a gateway writes. `on_progress` gets the bytes written so far, and
/// about how many there will be. A PostgreSQL database is refused: it is copied with PostgreSQL's own programs.
pub async fn backup(location: &str, to: &Path, on_progress: impl FnMut(u64, u64)) -> Result<(), CopyError> {
    refuse_postgres(location)?;
    Ok(sqlite::backup(location, to, on_progress).await?)
}

/// Puts a copy, which the caller has checked, in the place of the store at `location`, which no gateway may have open. Returns the file
/// in which the store that was there is kept.
pub async fn restore(location: &str, copy: &Path) -> Result<Option<PathBuf>, CopyError> {
    refuse_postgres(location)?;
    Ok(sqlite::restore(location, copy).await?)
}

fn refuse_postgres(location: &str) -> Result<(), CopyError> {
    if is_postgres(location) { Err(CopyError::Postgres) } else { Ok(()) }
}

/// What forbids this location in production, to follow the name of its setting.
#[must_use]
pub fn production_fault(location: &str) -> Option<&'static str> {
    if is_postgres(location) { postgres::production_fault(location) } else { None }
}
