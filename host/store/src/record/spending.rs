//! Spending totals of recent payments.

use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row, instant};
use gateway_domain::ids::Tenant;
use gateway_domain::intent::Payment;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{HOUR_MS, sum_of_halves};
use gateway_domain::time::{DAY_MS, EpochMs};

/// One statement, so that both sums see one state. Amounts are summed in 32-bit halves, because SQLite fails if a sum
/// exceeds 64 bits; PostgreSQL sums to a decimal number, which is cast back.
pub(crate) const SPENT: &str = "SELECT * FROM
    (SELECT CAST(coalesce(sum(amount_minor >> 32), 0) AS BIGINT) AS day_high,
        CAST(coalesce(sum(amount_minor & 4294967295), 0) AS BIGINT) AS day_low,
        CAST(coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > $6), 0) AS BIGINT) AS hour_high,
        CAST(coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > $6), 0) AS BIGINT) AS hour_low,
        count(*) AS n_day
     FROM spending WHERE tenant = $1 AND account = $2 AND currency = $4 AND at_ms > $5) AS of_account,
    (SELECT CAST(coalesce(sum(amount_minor >> 32), 0) AS BIGINT) AS to_day_high,
        CAST(coalesce(sum(amount_minor & 4294967295), 0) AS BIGINT) AS to_day_low,
        CAST(coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > $6), 0) AS BIGINT) AS to_hour_high,
        CAST(coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > $6), 0) AS BIGINT) AS to_hour_low
     FROM spending WHERE tenant = $1 AND recipient = $3 AND currency = $4 AND at_ms > $5) AS to_recipient";

/// What the parameters of [`SPENT`] are, in order.
pub(crate) const SPENT_OF: [&str; 6] =
    ["tenant", "account", "recipient", "currency", "day_from_ms", "hour_from_ms"];

/// The values of the parameters of [`SPENT`].
pub(crate) fn bound(tenant: &Tenant, payment: &Payment, now: EpochMs) -> [Cell; 6] {
    let since = |window_ms: u64| Cell::from(instant(EpochMs(now.0.saturating_sub(window_ms))));
    let texts = [&tenant.0, &payment.from_account, &payment.to_account, &payment.currency];
    let [tenant, account, recipient, currency] = texts.map(|text| Cell::from(text.as_str()));
    [tenant, account, recipient, currency, since(DAY_MS), since(HOUR_MS)]
}

/// The totals, including payments after `now`: if the clock was set back, they must still count towards limits. `None` if the
/// database does not answer with numbers.
pub(crate) async fn spending_totals<C: Connection>(
    conn: &mut C,
    tenant: &Tenant,
    payment: &Payment,
    now: EpochMs,
) -> Result<Option<SpendingTotals>, sqlx::Error> {
    Ok(conn.rows(SPENT, &bound(tenant, payment, now)).await?.first().and_then(totals))
}

/// The totals in a row of [`SPENT`].
pub(crate) fn totals(row: &Row) -> Option<SpendingTotals> {
    let total = |high, low| Some(sum_of_halves(row.integer(high)?, row.integer(low)?));
    Some(SpendingTotals {
        account_hour_minor: total("hour_high", "hour_low")?,
        account_day_minor: total("day_high", "day_low")?,
        account_day_count: row.integer("n_day")?.unsigned_abs(),
        recipient_hour_minor: total("to_hour_high", "to_hour_low")?,
        recipient_day_minor: total("to_day_high", "to_day_low")?,
    })
}
