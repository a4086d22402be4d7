//! Connections to either database. Rows are read with each column as stored, so that a damaged row can be reported.

use crate::sql::row::{Cell, Row};
use crate::sql::statements::Statements;

/// A connection to either database. Both understand the same SQL with parameters `$1`, `$2`, ..., but for [`Statements`].
pub(crate) trait Connection: Send {
    /// The SQL in which its database differs from the other.
    fn statements(&self) -> &'static Statements;

    /// Runs a statement, and returns its rows.
    fn rows(
        &mut self,
        sql: &str,
        bound: &[Cell],
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;
}
