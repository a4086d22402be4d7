//! Writes a policy decision that changed no operation and is no preview, and takes the token of a refusal.

use crate::postgres::commit::{exhausted, unsigned};
use crate::postgres::job::Job;
use crate::record::encode::{DecisionRow, FORMAT, TokenRow, row_hash};
use crate::record::frontier::LogFrontier;
use gateway_engine::ports::RateLimited;
use sqlx::PgConnection;

/// Skips a decision that the gateway repeats, if one with the same operation, input, bundle and output is stored.
const INSERT: &str = "WITH written AS (
        INSERT INTO policy_decisions
        (decision_index, at_ms, tenant, operation_id, intent_hash, format, submitter, row_hash, input, outcome)
        SELECT $11, $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE NOT ($10 AND EXISTS (
            SELECT 1 FROM policy_decisions WHERE operation_id = $3 AND input = $8
            AND outcome::jsonb ->> 'bundle_hash' = $9::jsonb ->> 'bundle_hash'
            AND outcome::jsonb ->> 'output_hash' = $9::jsonb ->> 'output_hash'))
        RETURNING decision_index)
    INSERT INTO row_counters (name, seq) SELECT 'policy_decisions', decision_index FROM written
    ON CONFLICT (name) DO UPDATE SET seq = excluded.seq";

/// Takes a token if the quota has one, and deletes some full quotas of others.
const TAKE: &str = "WITH taken AS (
        INSERT INTO admission_budgets (tenant, client_id, full_at_us) SELECT $1, $2, $3 + $4
        WHERE NOT EXISTS (SELECT 1 FROM admission_budgets
            WHERE tenant = $1 AND client_id = $2 AND full_at_us > $5 AND full_at_us <= $6)
        ON CONFLICT (tenant, client_id) DO UPDATE
        SET full_at_us = least(greatest(admission_budgets.full_at_us, $3), $5) + $4
        RETURNING full_at_us),
    dropped AS (
        DELETE FROM admission_budgets WHERE (tenant, client_id) IN (
            SELECT tenant, client_id FROM admission_budgets
            WHERE full_at_us <= $3 AND (tenant, client_id) <> ($1, $2) ORDER BY full_at_us LIMIT 2))
    SELECT full_at_us FROM taken";

pub(super) struct DecisionJob {
    pub(super) row: DecisionRow,
    /// The token that a refusal takes from its client's quota.
    pub(super) token: Option<TokenRow>,
}

impl Job for DecisionJob {
    type Output = RateLimited<()>;

    async fn apply(
        &self,
        conn: &mut PgConnection,
        _log: &mut LogFrontier,
    ) -> Result<RateLimited<()>, sqlx::Error> {
        let mut full_at_us = 0;
        if let Some(token) = &self.token {
            let take = sqlx::query_scalar(TAKE).bind(token.tenant.as_str()).bind(token.client_id.as_str());
            let take = take.bind(token.now_us).bind(token.increment_us);
            let take = take.bind(token.latest_us).bind(token.trusted_until_us);
            match take.fetch_optional(&mut *conn).await? {
                Some(taken) => full_at_us = unsigned(taken),
                None => return exhausted(conn, token).await,
            }
        }
        let DecisionRow { operation_id, tenant, intent_hash, submitter, repeats, evaluation } = &self.row;
        let index = next_index(&mut *conn, "policy_decisions").await?;
        let row_hash = row_hash(index, evaluation.contents);
        let insert = sqlx::query(INSERT).bind(evaluation.at_ms).bind(tenant.as_str());
        let insert =
            insert.bind(&operation_id.0.as_bytes()[..]).bind(&intent_hash.as_bytes()[..]).bind(FORMAT);
        let insert = insert.bind(submitter.as_str()).bind(&row_hash.as_bytes()[..]);
        let insert = insert.bind(evaluation.input.as_str()).bind(evaluation.outcome.as_str());
        insert.bind(*repeats).bind(index).execute(conn).await?;
        Ok(RateLimited::Written { written: (), full_at_us })
    }
}

/// The index of a numbered table's next row.
pub(super) async fn next_index(conn: &mut PgConnection, table: &'static str) -> Result<i64, sqlx::Error> {
    let sql = "SELECT seq FROM row_counters WHERE name = $1";
    let last: Option<i64> = sqlx::query_scalar(sql).bind(table).fetch_optional(conn).await?;
    Ok(last.unwrap_or_default().saturating_add(1))
}
