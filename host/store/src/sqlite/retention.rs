//! Deletes old rows.

use crate::frontier::LogFrontier;
use crate::retention::DropRows;
use gateway_sqlite::Job;
use sqlx::SqliteConnection;

impl Job for DropRows {
    type State = LogFrontier;
    type Output = u64;

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<u64, sqlx::Error> {
        self.run(conn).await
    }
}
