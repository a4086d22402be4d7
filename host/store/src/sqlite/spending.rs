//! Spending totals of recent payments.

use crate::encode::instant;
use crate::error::failed;
use gateway_domain::ids::Tenant;
use gateway_domain::intent::Payment;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{DAY_MS, HOUR_MS};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use sqlx::SqlitePool;

/// One statement, so that both sums see one state. Amounts are summed in 32-bit halves, because SQLite fails if a sum
/// exceeds 64 bits.
pub(super) const SPENT: &str = "SELECT * FROM
    (SELECT coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0),
        coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?6), 0),
        coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?6), 0), count(*)
     FROM spending WHERE tenant = ?1 AND account = ?2 AND currency = ?4 AND at_ms > ?5),
    (SELECT coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0),
        coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?6), 0),
        coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?6), 0)
     FROM spending WHERE tenant = ?1 AND recipient = ?3 AND currency = ?4 AND at_ms > ?5)";

/// For the account: high and low half for the day, then for the hour, and the count for the day. Then for the
/// recipient, without the count.
type Row = (i64, i64, i64, i64, i64, i64, i64, i64, i64);

/// The totals, including payments after `now`: if the clock was set back, they must still count towards limits.
pub(super) async fn spending_totals(
    pool: &SqlitePool,
    tenant: &Tenant,
    payment: &Payment,
    now: EpochMs,
) -> Result<SpendingTotals, Unavailable> {
    let since = |window_ms: u64| instant(EpochMs(now.0.saturating_sub(window_ms)));
    let query = sqlx::query_as::<_, Row>(SPENT).bind(tenant.0.as_str());
    let query = query.bind(payment.from_account.as_str()).bind(payment.to_account.as_str());
    let query = query.bind(payment.currency.as_str()).bind(since(DAY_MS)).bind(since(HOUR_MS));
    let row = query.fetch_one(pool).await;
    let row = row.map_err(|error| failed("the amounts spent could not be read", &error))?;
    let (day_high, day_low, hour_high, hour_low, count, to_day_high, to_day_low, to_hour_high, to_hour_low) =
        row;
    Ok(SpendingTotals {
        account_hour_minor: sum(hour_high, hour_low),
        account_day_minor: sum(day_high, day_low),
        account_day_count: count.unsigned_abs(),
        recipient_hour_minor: sum(to_hour_high, to_hour_low),
        recipient_day_minor: sum(to_day_high, to_day_low),
    })
}

/// The sum of the two halves. A sum above the maximum becomes the maximum, which is above any limit.
fn sum(high: i64, low: i64) -> u64 {
    let sum = (i128::from(high) << 32) + i128::from(low);
    u64::try_from(sum).unwrap_or(u64::MAX)
}
