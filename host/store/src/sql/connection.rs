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

/// The rows of a statement on a connection whose values `$cell` reads. Fractions are never bound.
macro_rules! fetch {
    ($conn:expr, $sql:expr, $bound:expr, $cell:path) => {{
        use crate::sql::row::{Cell, Row};
        use sqlx::{AssertSqlSafe, Column as _, Row as _};
        let query = $bound.iter().fold(sqlx::query(AssertSqlSafe($sql)), |query, cell| match cell {
            Cell::Null | Cell::Real => query.bind(None::<&[u8]>),
            Cell::Integer(number) => query.bind(*number),
            Cell::Text(bytes) => match str::from_utf8(bytes) {
                Ok(text) => query.bind(text),
                // SQLite stores text that is not valid UTF-8; the statements cast these bytes back.
                Err(_) => query.bind(bytes.as_slice()),
            },
            Cell::Blob(bytes) => query.bind(bytes.as_slice()),
        });
        let rows = query.fetch_all($conn).await?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let names: std::sync::Arc<[String]> =
            first.columns().iter().map(|column| column.name().to_owned()).collect();
        let row = |cells| Row::new(std::sync::Arc::clone(&names), cells);
        rows.iter()
            .map(|stored| (0..stored.len()).map(|index| $cell(stored.try_get_raw(index)?)).collect())
            .map(|cells: Result<Vec<Cell>, sqlx::Error>| cells.map(row))
            .collect()
    }};
}
pub(crate) use fetch;
