//! Why a store could not be opened, and why it did not answer.

use gateway_engine::{Dependency, Unavailable};
use gateway_sqlite::{Database, State, WriteError};
use std::error::Error;
use std::fmt::Display;

/// Why [`Store::open`](crate::Store::open) refused.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The SQLite database: its own error, one line for an operator.
    #[error(transparent)]
    Sqlite(#[from] gateway_sqlite::OpenError),
}

/// An answer that names what was wanted and nothing of how it is stored. The cause goes to the log, once.
pub(crate) fn failed(what: impl Display, error: &(dyn Error + 'static)) -> Unavailable {
    let detail = what.to_string();
    tracing::error!(error, "{detail}");
    Unavailable::new(Dependency::Store, detail)
}

/// As [`failed`], of a write: a disk that is full is named, with its path in the log.
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

/// As [`failed`], where there is no deeper cause.
pub(crate) fn unavailable(detail: impl Display) -> Unavailable {
    Unavailable::new(Dependency::Store, detail.to_string())
}
