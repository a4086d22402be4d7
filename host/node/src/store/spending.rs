//! The payments that this node admitted, so that a gateway cannot hide them from a policy that limits amounts over time.

use crate::error::{NodeError, Stop};
use crate::store::columns::integer;
use crate::store::row_hash;
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::intent::Payment;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{HOUR_MS, sum_of_halves};
use gateway_domain::time::{DAY_MS, EpochMs};
use sqlx::SqliteConnection;

/// Amounts are summed in 32-bit halves, because SQLite fails if a sum exceeds 64 bits. Payments after `now` count too: the clock
/// may have been set back.
const TOTALS: &str = "SELECT * FROM
    (SELECT coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0),
        coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?6), 0),
        coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?6), 0), count(*)
     FROM spending WHERE tenant = ?1 AND account = ?2 AND currency = ?4 AND at_ms > ?5),
    (SELECT coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0),
        coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?6), 0),
        coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?6), 0)
     FROM spending WHERE tenant = ?1 AND recipient = ?3 AND currency = ?4 AND at_ms > ?5)";

/// For the account: high and low half for the day, then for the hour, and the count for the day. Then for the recipient, without
/// the count.
type Row = (i64, i64, i64, i64, i64, i64, i64, i64, i64);

/// The totals of the payments that this node admitted from this payment's account, and to its recipient, in its currency.
pub(crate) async fn totals(
    conn: &mut SqliteConnection,
    tenant: &Tenant,
    payment: &Payment,
    now: EpochMs,
) -> Result<SpendingTotals, Stop> {
    let query = sqlx::query_as::<_, Row>(TOTALS).bind(tenant.0.as_str());
    let query = query.bind(payment.from_account.as_str()).bind(payment.to_account.as_str());
    let query = query.bind(payment.currency.as_str()).bind(since(now, DAY_MS)).bind(since(now, HOUR_MS));
    let (day_high, day_low, hour_high, hour_low, count, to_day_high, to_day_low, to_hour_high, to_hour_low) =
        query.fetch_one(conn).await?;
    Ok(SpendingTotals {
        account_hour_minor: sum_of_halves(hour_high, hour_low),
        account_day_minor: sum_of_halves(day_high, day_low),
        account_day_count: count.unsigned_abs(),
        recipient_hour_minor: sum_of_halves(to_hour_high, to_hour_low),
        recipient_day_minor: sum_of_halves(to_day_high, to_day_low),
    })
}

/// Records an admitted payment, and removes those that are older than a day.
pub(crate) async fn record(
    conn: &mut SqliteConnection,
    id: OperationId,
    tenant: &Tenant,
    payment: &Payment,
    now: EpochMs,
) -> Result<(), Stop> {
    let (id, at_ms) = (id.to_string(), integer(now.0));
    let row = row_hash::Spending {
        operation_id: &id,
        tenant: &tenant.0,
        account: &payment.from_account,
        recipient: &payment.to_account,
        currency: &payment.currency,
        amount_minor: payment.amount_minor.max(0),
        at_ms,
    };
    let sql = "DELETE FROM spending WHERE at_ms <= ?9;\n\
               INSERT INTO spending \
               (operation_id, tenant, account, recipient, currency, amount_minor, at_ms, row_hash) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    sqlx::query(sql)
        .bind(row.operation_id)
        .bind(row.tenant)
        .bind(row.account)
        .bind(row.recipient)
        .bind(row.currency)
        .bind(row.amount_minor)
        .bind(row.at_ms)
        .bind(row.hash().map_err(NodeError::from)?.to_string())
        .bind(since(now, DAY_MS))
        .execute(conn)
        .await?;
    Ok(())
}

/// Removes a payment that was discarded: its share never leaves this node.
pub(crate) async fn remove(conn: &mut SqliteConnection, id: OperationId) -> Result<(), Stop> {
    sqlx::query("DELETE FROM spending WHERE operation_id = ?1").bind(id.to_string()).execute(conn).await?;
    Ok(())
}

fn since(now: EpochMs, window_ms: u64) -> i64 {
    integer(now.0.saturating_sub(window_ms))
}
