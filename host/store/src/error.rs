//! Errors of opening a store, and of a store that cannot answer.

use gateway_engine::{Dependency, Unavailable};
use gateway_sqlite::{Database, State, WriteError};
use std::error::Error;
use std::fmt::Display;

/// Why [`Store::open`](crate::Store::open) failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The SQLite database could not be opened. Its message is one line for an operator.
    #[error(transparent)]
    Sqlite(#[from] gateway_sqlite::OpenError),
    /// The PostgreSQL database could not be opened. Its message is one line for an operator.
    #[error(transparent)]
    Postgres(#[from] crate::postgres::OpenError),
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
        matches!(self, Self::Postgres(crate::postgres::OpenError::Unreachable { .. }))
    }

    /// Whether an earlier release made the database, which the next start brings up to date.
    #[must_use]
    pub const fn is_old_schema(&self) -> bool {
        matches!(
            self,
            Self::Sqlite(gateway_sqlite::OpenError::OldSchema { .. })
                | Self::Postgres(crate::postgres::OpenError::OldSchema { .. })
        )
    }
}

/// An error with the text `what`. The cause is only logged, because callers see the error.
pub(crate) fn failed(what: impl Display, error: &(dyn Error + 'static)) -> Unavailable {
    let detail = what.to_string();
    tracing::error!(error, "{detail}");
    Unavailable::new(Dependency::Store, detail)
}

/// Like [`failed`], for a write. If the disk is full, the error says so, and the log has the path.
pub(crate) fn unwritten<S: State>(
    database: &Database<S>,
    what: impl Display,
    error: &WriteError,
) -> Unavailable {
    match database.full_disk() {
        Some(path) => {
            let path = path.display();
            tracing::error!(error = error as &dyn Error, "{what}: the disk with `{path}` is full");
            Unavailable::new(Dependency::Store, format!("{what}: the disk is full"))
        }
        None => failed(what, error),
    }
}

/// An error without a cause.
pub(crate) fn unavailable(detail: impl Display) -> Unavailable {
    Unavailable::new(Dependency::Store, detail.to_string())
}

/// Whether it is an error of a PostgreSQL server whose code begins so (PostgreSQL, appendix A).
pub(crate) fn has_code(error: &sqlx::Error, beginnings: &[&str]) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| beginnings.iter().any(|beginning| code.starts_with(beginning)))
}
