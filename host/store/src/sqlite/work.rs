//! Writes the waits of operations that the reconciler could not drive.

use crate::record::frontier::LogFrontier;
use gateway_sqlite::Job;
use sqlx::SqliteConnection;

pub(super) struct DeferJob {
    /// As [`crate::store::work::as_json`] writes them.
    pub(super) deferrals: String,
    pub(super) now_ms: i64,
}

const DEFER: &str =
    "UPDATE operations SET due_ms = ?2 + (value ->> 'wait_ms'), waited_ms = value ->> 'waited_ms'
    FROM json_each(?1) WHERE operation_id = unhex(value ->> 'id')";

impl Job for DeferJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        sqlx::query(DEFER).bind(self.deferrals.as_str()).bind(self.now_ms).execute(conn).await.map(drop)
    }
}

/// After a restart, every operation is tried at once.
pub(super) struct NoWaitsJob;

impl Job for NoWaitsJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let sql = "UPDATE operations SET due_ms = 0, waited_ms = 0
            WHERE operation_id IN (SELECT operation_id FROM operations WHERE owes = 1) AND due_ms > 0";
        sqlx::query(sql).execute(conn).await.map(drop)
    }
}
