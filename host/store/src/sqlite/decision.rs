//! Writes a policy decision that changed no operation and is no preview.

use crate::record::encode::{DecisionRow, FORMAT, TokenRow, row_hash};
use crate::record::frontier::LogFrontier;
use crate::sqlite::{next_index, quota};
use gateway_engine::ports::RateLimited;
use gateway_sqlite::Job;
use sqlx::{QueryBuilder, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Skips a decision that the gateway repeats, if one with the same operation, input, bundle and output is stored.
const INSERT: &str = "INSERT INTO policy_decisions
    (decision_index, at_ms, tenant, operation_id, intent_hash, format, submitter, row_hash, input, outcome)
    SELECT ?11, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT (?10 AND EXISTS (
        SELECT 1 FROM policy_decisions WHERE operation_id = ?3 AND input = ?8
        AND outcome ->> 'bundle_hash' = ?9 ->> 'bundle_hash' AND outcome ->> 'output_hash' = ?9 ->> 'output_hash'))";

pub(super) struct DecisionJob {
    pub(super) row: DecisionRow,
    pub(super) n_statements: Arc<AtomicU64>,
}

impl Job for DecisionJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let DecisionRow { operation_id, tenant, intent_hash, submitter, repeats, evaluation } = &self.row;
        let index = next_index(&mut *conn, "policy_decisions").await?;
        let row_hash = row_hash(index, evaluation.contents);
        let insert = sqlx::query(INSERT).bind(evaluation.at_ms).bind(tenant.as_str());
        let insert =
            insert.bind(&operation_id.0.as_bytes()[..]).bind(&intent_hash.as_bytes()[..]).bind(FORMAT);
        let insert = insert.bind(submitter.as_str()).bind(&row_hash.as_bytes()[..]);
        let insert = insert.bind(evaluation.input.as_str()).bind(evaluation.outcome.as_str());
        insert.bind(*repeats).bind(index).execute(conn).await?;
        self.n_statements.fetch_add(2, Ordering::Relaxed);
        Ok(())
    }
}

/// A refusal, and the token that it takes from the client's quota.
pub(super) struct DecisionWithTokenJob {
    pub(super) decision: DecisionJob,
    pub(super) token: TokenRow,
}

impl Job for DecisionWithTokenJob {
    type State = LogFrontier;
    type Output = RateLimited<()>;

    async fn apply(
        &self,
        conn: &mut SqliteConnection,
        log: &mut LogFrontier,
    ) -> Result<RateLimited<()>, sqlx::Error> {
        let mut script = QueryBuilder::new("");
        quota::take(&mut script, &self.token, |text| quota::has_token(text, &self.token));
        quota::drop_full(&mut script, &self.token);
        let taken = quota::run(script, conn).await?;
        self.decision.n_statements.fetch_add(2, Ordering::Relaxed);
        if let Some(full_at_us) = taken {
            self.decision.apply(conn, log).await?;
            return Ok(RateLimited::Written { written: (), full_at_us });
        }
        let exhausted = quota::exhausted(conn, &self.token).await?;
        Ok(exhausted.map_or(RateLimited::Conflict, |full_at_us| RateLimited::Exhausted { full_at_us }))
    }
}
