//! Clients' quotas (table `admission_budgets`). A token is taken in the transaction that writes the operation or refusal.
//!
//! A quota is one number, the instant at which it is full again. See `gateway_engine::Token` for the arithmetic.

use crate::record::encode::TokenRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

/// Rows of full quotas that are deleted when a token is taken. It is more than one, so that the table shrinks.
const DROPPED_PER_TOKEN: i64 = 2;

/// Adds the condition that the client's quota has a token left.
pub(super) fn has_token(text: &mut QueryBuilder<Sqlite>, token: &TokenRow) {
    text.push("NOT EXISTS (SELECT 1 FROM admission_budgets WHERE tenant = ");
    text.push_bind(token.tenant.clone()).push(" AND client_id = ").push_bind(token.client_id.clone());
    text.push(" AND full_at_us > ").push_bind(token.latest_us);
    text.push(" AND full_at_us <= ").push_bind(token.trusted_until_us).push(")");
}

/// Adds the statement that takes the token if `condition` holds, and returns when the quota is full again.
pub(super) fn take(
    text: &mut QueryBuilder<Sqlite>,
    token: &TokenRow,
    condition: impl FnOnce(&mut QueryBuilder<Sqlite>),
) {
    text.push("INSERT INTO admission_budgets (tenant, client_id, full_at_us) SELECT ");
    let mut values = text.separated(", ");
    values.push_bind(token.tenant.clone()).push_bind(token.client_id.clone());
    values.push_bind(token.now_us.saturating_add(token.increment_us));
    text.push(" WHERE ");
    condition(text);
    text.push(" ON CONFLICT (tenant, client_id) DO UPDATE SET full_at_us = min(max(full_at_us, ");
    text.push_bind(token.now_us).push("), ").push_bind(token.latest_us).push(") + ");
    text.push_bind(token.increment_us).push(" RETURNING full_at_us;\n");
}

/// Adds the deletion of some full quotas. It needs no condition, because a missing row means a full quota.
pub(super) fn drop_full(text: &mut QueryBuilder<Sqlite>, token: &TokenRow) {
    text.push(
        "DELETE FROM admission_budgets WHERE (tenant, client_id) IN
         (SELECT tenant, client_id FROM admission_budgets WHERE full_at_us <= ",
    );
    text.push_bind(token.now_us).push(" ORDER BY full_at_us LIMIT ").push_bind(DROPPED_PER_TOKEN);
    text.push(");\n");
}

/// Runs a script that contains [`take`]. Returns the instant at which the quota is full again, or `None` if no token
/// was taken.
pub(super) async fn run(
    mut script: QueryBuilder<Sqlite>,
    conn: &mut SqliteConnection,
) -> Result<Option<u64>, sqlx::Error> {
    // Fetching all rows runs every statement; only `take` returns one.
    let rows: Vec<i64> = script.build_query_scalar().fetch_all(conn).await?;
    Ok(rows.first().copied().map(unsigned))
}

/// The instant at which the client's quota is full again, if it has no token left.
pub(super) async fn exhausted(
    conn: &mut SqliteConnection,
    token: &TokenRow,
) -> Result<Option<u64>, sqlx::Error> {
    let sql = "SELECT full_at_us FROM admission_budgets
        WHERE tenant = ?1 AND client_id = ?2 AND full_at_us > ?3 AND full_at_us <= ?4";
    let query = sqlx::query_scalar(sql).bind(token.tenant.as_str()).bind(token.client_id.as_str());
    let row = query.bind(token.latest_us).bind(token.trusted_until_us).fetch_optional(conn).await?;
    Ok(row.map(unsigned))
}

fn unsigned(full_at_us: i64) -> u64 {
    u64::try_from(full_at_us).unwrap_or_default()
}
