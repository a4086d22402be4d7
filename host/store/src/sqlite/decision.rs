//! A policy decision that moved no operation, and was no preview.

use crate::encode::{ChargeRow, DecisionRow, FORMAT, row_hash};
use crate::sqlite::commit::unsigned;
use crate::sqlite::right_edge::RightEdge;
use crate::sqlite::{budgets, next_index};
use gateway_engine::ports::RateLimited;
use gateway_sqlite::Job;
use sqlx::{QueryBuilder, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What repeats is left out when the same question to the same bundle was given the same answer before.
const INSERT: &str = "INSERT INTO policy_decisions
    (decision_index, at_ms, tenant, operation_id, intent_hash, format, submitter, row_hash, input, outcome)
    SELECT ?11, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT (?10 AND EXISTS (
        SELECT 1 FROM policy_decisions WHERE operation_id = ?3 AND input = ?8
        AND outcome ->> 'bundle_hash' = ?9 ->> 'bundle_hash' AND outcome ->> 'output_hash' = ?9 ->> 'output_hash'))";

pub(crate) struct DecisionJob {
    pub(crate) row: DecisionRow,
    pub(crate) n_statements: Arc<AtomicU64>,
}

impl Job for DecisionJob {
    type State = RightEdge;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _edge: &mut RightEdge) -> Result<(), sqlx::Error> {
        let DecisionRow { operation_id, tenant, intent_hash, submitter, repeats, asked } = &self.row;
        let index = next_index(&mut *conn, "policy_decisions").await?;
        let row_hash = row_hash(index, asked.contents);
        let insert = sqlx::query(INSERT).bind(asked.at_ms).bind(tenant.as_str());
        let insert =
            insert.bind(&operation_id.0.as_bytes()[..]).bind(&intent_hash.as_bytes()[..]).bind(FORMAT);
        let insert = insert.bind(submitter.as_str()).bind(&row_hash.as_bytes()[..]);
        let insert =
            insert.bind(asked.input.as_str()).bind(asked.outcome.as_str()).bind(*repeats).bind(index);
        insert.execute(conn).await?;
        self.n_statements.fetch_add(2, Ordering::Relaxed);
        Ok(())
    }
}

/// A refusal of a submission, and what it costs its client.
pub(crate) struct ChargedDecisionJob {
    pub(crate) decision: DecisionJob,
    pub(crate) charge: ChargeRow,
}

impl Job for ChargedDecisionJob {
    type State = RightEdge;
    type Output = RateLimited<()>;

    async fn apply(
        &self,
        conn: &mut SqliteConnection,
        edge: &mut RightEdge,
    ) -> Result<RateLimited<()>, sqlx::Error> {
        let mut script = QueryBuilder::new("");
        budgets::charge_begin(&mut script, &self.charge);
        budgets::has_room(&mut script, &self.charge);
        budgets::charge_end(&mut script, &self.charge);
        budgets::drop_full(&mut script, &self.charge);
        let charged = script.build_query_scalar().fetch_all(&mut *conn).await?;
        self.decision.n_statements.fetch_add(2, Ordering::Relaxed);
        if let Some(full_at_us) = charged.first().copied().map(unsigned) {
            self.decision.apply(conn, edge).await?;
            return Ok(RateLimited::Written { written: (), full_at_us });
        }
        let spent = budgets::spent(conn, &self.charge).await?.map(unsigned);
        Ok(spent.map_or(RateLimited::Conflict, |full_at_us| RateLimited::Exhausted { full_at_us }))
    }
}
