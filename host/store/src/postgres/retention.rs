//! Deletes old rows.

use crate::frontier::LogFrontier;
use crate::postgres::job::Job;
use crate::retention::DropRows;
use sqlx::PgConnection;

impl Job for DropRows {
    type Output = u64;

    async fn apply(&self, conn: &mut PgConnection, _log: &mut LogFrontier) -> Result<u64, sqlx::Error> {
        self.run(conn).await
    }
}
