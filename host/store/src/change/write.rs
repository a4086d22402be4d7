//! What a write is, to the queue of either database.

use crate::record::frontier::LogFrontier;
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row};

/// A write in a transaction that holds the end of the log.
pub(crate) trait Write: Send + Sync + 'static {
    /// What the caller gets once the write is durable.
    type Output: Send + 'static;

    /// Runs the statements, and appends to the log what they append. It may run more than once before the write is durable. A write that
    /// refuses says so in its output, and changes neither rows nor the log.
    fn run<C: Connection>(
        &self,
        conn: &mut C,
        log: &mut LogFrontier,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}

/// A write that appends nothing to the log.
pub(crate) trait Change: Send + Sync + 'static {
    /// What the caller gets once the change is durable.
    type Output: Send + 'static;

    /// Runs the statements. It may run more than once before the change is durable.
    fn run<C: Connection>(
        &self,
        conn: &mut C,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}

impl<T: Change> Write for T {
    type Output = T::Output;

    async fn run<C: Connection>(
        &self,
        conn: &mut C,
        _log: &mut LogFrontier,
    ) -> Result<T::Output, sqlx::Error> {
        Change::run(self, conn).await
    }
}

/// Statements one after the other, with their bound values. The caller gets the rows of the last one.
pub(crate) struct InTurn(pub(crate) Vec<(&'static str, Vec<Cell>)>);

impl Change for InTurn {
    type Output = Vec<Row>;

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<Vec<Row>, sqlx::Error> {
        let mut rows = Vec::new();
        for (sql, bound) in &self.0 {
            rows = conn.rows(sql, bound).await?;
        }
        Ok(rows)
    }
}

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
