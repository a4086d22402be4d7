//! Errors of a store that cannot answer.

use gateway_engine::{Dependency, Unavailable};
use std::error::Error;
use std::fmt::Display;

/// An error with the text `what`. The cause is only logged, because callers see the error.
pub(crate) fn failed(what: impl Display, error: &(dyn Error + 'static)) -> Unavailable {
    let detail = what.to_string();
    tracing::error!(error, "{detail}");
    Unavailable::new(Dependency::Store, detail)
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
