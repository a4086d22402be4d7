//! The payments that this node admitted, so that a gateway cannot hide them from a policy that limits amounts over time.

use crate::error::{NodeError, Stop};
use crate::store::columns::integer;
use crate::store::row_hash;
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::intent::Payment;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{HOUR_MS, sum_of_halves};
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_sqlite::Connection;

/// For the account: high and low half for the day, then for the hour, and the count for the day. Then for the recipient, without
/// the count. Amounts are summed in 32-bit halves, because SQLite fails if a sum exceeds 64 bits. Payments after `now` count too:
/// the clock may have been set back.
const TOTALS: &str = "SELECT * FROM
    (SELECT coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0),
        coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?6), 0),
        coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?6), 0), count(*)
     FROM spending WHERE tenant = ?1 AND account = ?2 AND currency = ?4 AND at_ms > ?5),
    (SELECT coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0),
        coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?6), 0),
        coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?6), 0)
     FROM spending WHERE tenant = ?1 AND recipient = ?3 AND currency = ?4 AND at_ms > ?5)";

/// The totals of the payments that this node admitted from this payment's account, and to its recipient, in its currency.
pub(crate) async fn totals(
    conn: &mut Connection,
    tenant: &Tenant,
    payment: &Payment,
    now: EpochMs,
) -> Result<SpendingTotals, Stop> {
    let bound = [
        tenant.0.as_str().into(),
        payment.from_account.as_str().into(),
        payment.to_account.as_str().into(),
        payment.currency.as_str().into(),
        since(now, DAY_MS).into(),
        since(now, HOUR_MS).into(),
    ];
    let row = conn.row(TOTALS, &bound).await?.ok_or(sqlx::Error::RowNotFound)?;
    let sum = |high, low| Ok::<_, sqlx::Error>(sum_of_halves(row.at(high)?, row.at(low)?));
    Ok(SpendingTotals {
        account_hour_minor: sum(2, 3)?,
        account_day_minor: sum(0, 1)?,
        account_day_count: row.at::<i64>(4)?.unsigned_abs(),
        recipient_hour_minor: sum(7, 8)?,
        recipient_day_minor: sum(5, 6)?,
    })
}

/// Records an admitted payment, and removes those that are older than a day.
pub(crate) async fn record(
    conn: &mut Connection,
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
    let bound = [
        row.operation_id.into(),
        row.tenant.into(),
        row.account.into(),
        row.recipient.into(),
        row.currency.into(),
        row.amount_minor.into(),
        row.at_ms.into(),
        row.hash().map_err(NodeError::from)?.to_string().into(),
        since(now, DAY_MS).into(),
    ];
    Ok(conn.run(sql, &bound).await?)
}

/// Removes a payment that was discarded: its share never leaves this node.
pub(crate) async fn remove(conn: &mut Connection, id: OperationId) -> Result<(), Stop> {
    Ok(conn.run("DELETE FROM spending WHERE operation_id = ?1", &[id.to_string().into()]).await?)
}

fn since(now: EpochMs, window_ms: u64) -> i64 {
    integer(now.0.saturating_sub(window_ms))
}
