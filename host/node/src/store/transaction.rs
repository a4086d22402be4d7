//! Transactions of the node's database, and its schema.

use crate::error::{NodeError, Stop};
use crate::store::log::LogState;
use gateway_spending::documents;
use gateway_sqlite::{ApplicationId, Connection, Job, Migration};

pub(crate) const APPLICATION: ApplicationId = ApplicationId::new(*b"SVCn");

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "node", sql: include_str!("../../migrations/0001_node.sql") },
    Migration { version: 2, name: "row_hashes", sql: include_str!("../../migrations/0002_row_hashes.sql") },
    Migration { version: 3, name: "log", sql: include_str!("../../migrations/0003_log.sql") },
    Migration { version: 4, name: "policy", sql: include_str!("../../migrations/0004_policy.sql") },
    Migration { version: 5, name: "spending", sql: gateway_spending::SCHEMA },
    Migration { version: 6, name: "documents", sql: documents::SCHEMA },
];

/// Work in one transaction of the node's database.
pub(crate) trait Transact: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Whether a stopped node refuses the work.
    const IS_STEP: bool = true;

    /// Does the work. It must make all its checks before its first write and before it appends to the log: a refusal does not
    /// roll the transaction back.
    fn run(
        &self,
        conn: &mut Connection,
        log: &mut LogState,
    ) -> impl Future<Output = Result<Self::Output, Stop>> + Send;
}

/// Runs work as a [`Job`]. A refusal is the job's output; only a failed store is its error.
pub(crate) struct Transaction<T>(pub(crate) T);

impl<T: Transact> Job for Transaction<T> {
    type State = LogState;
    type Output = Result<T::Output, NodeError>;

    async fn apply(&self, conn: &mut Connection, log: &mut LogState) -> Result<Self::Output, sqlx::Error> {
        if T::IS_STEP && log.is_stopped() {
            return Ok(Err(NodeError::STOPPED));
        }
        let before = log.clone();
        match self.0.run(conn, log).await {
            Ok(output) => Ok(Ok(output)),
            Err(Stop::Refused(refused)) => {
                *log = before;
                Ok(Err(refused))
            }
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}
