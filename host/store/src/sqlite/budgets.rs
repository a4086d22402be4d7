//! Clients' budgets: charged in the transaction that writes what they pay for.

use crate::encode::ChargeRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

/// RateLimiter that are full, dropped with each charge: more than a charge adds, so that the table has no more rows than clients
/// that submitted lately.
const DROPPED_PER_CHARGE: i64 = 2;

/// Adds a condition: the client's budget has room for the charge.
pub(super) fn has_room(text: &mut QueryBuilder<Sqlite>, charge: &ChargeRow) {
    text.push("NOT EXISTS (SELECT 1 FROM admission_budgets WHERE tenant = ");
    text.push_bind(charge.tenant.clone()).push(" AND client_id = ").push_bind(charge.client_id.clone());
    text.push(" AND full_at_us > ").push_bind(charge.latest_us);
    text.push(" AND full_at_us <= ").push_bind(charge.believed_us).push(")");
}

/// Adds the beginning of the charge, which ends with a condition and [`charge_end`]. It returns when the budget is full.
pub(super) fn charge_begin(text: &mut QueryBuilder<Sqlite>, charge: &ChargeRow) {
    text.push("INSERT INTO admission_budgets (tenant, client_id, full_at_us) SELECT ");
    let mut values = text.separated(", ");
    values.push_bind(charge.tenant.clone()).push_bind(charge.client_id.clone());
    values.push_bind(charge.now_us.saturating_add(charge.increment_us));
    text.push(" WHERE ");
}

/// Adds the end of the charge.
pub(super) fn charge_end(text: &mut QueryBuilder<Sqlite>, charge: &ChargeRow) {
    text.push(" ON CONFLICT (tenant, client_id) DO UPDATE SET full_at_us = min(max(full_at_us, ");
    text.push_bind(charge.now_us).push("), ").push_bind(charge.latest_us).push(") + ");
    text.push_bind(charge.increment_us).push(" RETURNING full_at_us;\n");
}

/// Adds the dropping of some budgets that are full. Nothing follows from a row that is gone, so it needs no condition.
pub(super) fn drop_full(text: &mut QueryBuilder<Sqlite>, charge: &ChargeRow) {
    text.push(
        "DELETE FROM admission_budgets WHERE (tenant, client_id) IN
         (SELECT tenant, client_id FROM admission_budgets WHERE full_at_us <= ",
    );
    text.push_bind(charge.now_us).push(" ORDER BY full_at_us LIMIT ").push_bind(DROPPED_PER_CHARGE);
    text.push(");\n");
}

/// When the client's budget is full, if that leaves no room for the charge.
pub(super) async fn spent(
    conn: &mut SqliteConnection,
    charge: &ChargeRow,
) -> Result<Option<i64>, sqlx::Error> {
    let sql = "SELECT full_at_us FROM admission_budgets
        WHERE tenant = ?1 AND client_id = ?2 AND full_at_us > ?3 AND full_at_us <= ?4";
    let query = sqlx::query_scalar(sql).bind(charge.tenant.as_str()).bind(charge.client_id.as_str());
    query.bind(charge.latest_us).bind(charge.believed_us).fetch_optional(conn).await
}
