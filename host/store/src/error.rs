//! Why a store could not be opened, and why it did not answer.

use gateway_engine::{Dependency, Unavailable};
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

/// As [`failed`], where there is no deeper cause.
pub(crate) fn unavailable(detail: impl Display) -> Unavailable {
    Unavailable::new(Dependency::Store, detail.to_string())
}
