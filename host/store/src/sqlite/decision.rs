//! A policy decision that moved no operation.

use crate::encode::{DecisionRow, FORMAT};
use crate::sqlite::right_edge::RightEdge;
use gateway_sqlite::Job;
use sqlx::SqliteConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct DecisionJob {
    pub(crate) row: DecisionRow,
    pub(crate) n_statements: Arc<AtomicU64>,
}

impl Job for DecisionJob {
    type State = RightEdge;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _edge: &mut RightEdge) -> Result<(), sqlx::Error> {
        let sql =
            "INSERT INTO policy_decisions (at_ms, tenant, operation_id, intent_hash, format, submitter, outcome)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let row = &self.row;
        let insert = sqlx::query(sql).bind(row.at_ms).bind(row.tenant.as_str());
        let insert = insert
            .bind(&row.operation_id.0.as_bytes()[..])
            .bind(&row.intent_hash.as_bytes()[..])
            .bind(FORMAT);
        insert.bind(row.submitter.as_str()).bind(row.outcome.as_str()).execute(conn).await?;
        self.n_statements.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
