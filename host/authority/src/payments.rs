//! The payments that the authority decided on, so that a gateway cannot hide them from a policy that limits amounts over time.
//!
//! A payment counts from the last decision on it for a day, the longest window of a velocity fact, whether or not it was executed: only
//! the nodes and the gateway know what became of it.

use crate::error::{RecordError, Stop, Unverified};
use crate::row::{self, integer};
use gateway_domain::ids::{Hex32, OperationId, Tenant};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::operation::Operation;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{HOUR_MS, sum_of_halves};
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_sqlite::Connection;

/// Rows that are removed with one decision: more than are added, so that they do not pile up, and few enough for the next caller.
const REMOVED_MAX: i64 = 1_000;

/// Amounts are summed in 32-bit halves, because SQLite fails if a sum exceeds 64 bits. Payments after `now` count too: the clock
/// may have been set back. `$party` is the column with the account in question.
macro_rules! totals {
    ($party:literal) => {
        concat!(
            "SELECT coalesce(sum(amount_minor >> 32) FILTER (WHERE at_ms > ?5), 0), \
             coalesce(sum(amount_minor & 4294967295) FILTER (WHERE at_ms > ?5), 0), \
             coalesce(sum(amount_minor >> 32), 0), coalesce(sum(amount_minor & 4294967295), 0), count(*) \
             FROM payment WHERE tenant = ?1 AND ",
            $party,
            " = ?2 AND currency = ?3 AND at_ms > ?4 AND operation_id != ?6"
        )
    };
}

/// The amounts of the hour and of the day, and the number of payments in the day.
#[derive(Clone, Copy)]
struct Sums {
    hour_minor: u64,
    day_minor: u64,
    day_count: u64,
}

/// The payment of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Decided<'a> {
    id: OperationId,
    intent_hash: Hex32,
    tenant: &'a Tenant,
    payment: &'a Payment,
}

impl<'a> Decided<'a> {
    /// `None` if the operation is not a payment.
    pub(crate) fn of(operation: &'a Operation) -> Option<Self> {
        match &operation.intent {
            Intent::Payment(payment) => Some(Self {
                id: operation.id,
                intent_hash: operation.intent_hash,
                tenant: &operation.tenant,
                payment,
            }),
            Intent::AssetAction(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        }
    }

    /// Checks that an earlier decision on this operation, if there is one, was on the same payment. Each operation counts once, so a
    /// gateway could otherwise have two payments decided and one of them counted.
    pub(crate) async fn check_same(&self, conn: &mut Connection) -> Result<(), Stop> {
        let sql = "SELECT intent_hash, tenant FROM payment WHERE operation_id = ?1";
        let Some(known) = conn.row(sql, &[self.id.to_string().into()]).await? else { return Ok(()) };
        let (hash, tenant): (String, String) = (known.get("intent_hash")?, known.get("tenant")?);
        let is_same = hash == self.intent_hash.to_string() && tenant == self.tenant.0;
        if is_same { Ok(()) } else { Err(Unverified::OtherPayment.into()) }
    }

    /// The totals of the payments from this payment's account, and to its recipient, in its currency, without this one.
    pub(crate) async fn totals(&self, conn: &mut Connection, now: EpochMs) -> Result<SpendingTotals, Stop> {
        let account = self.sums(conn, totals!("account"), &self.payment.from_account, now).await?;
        let recipient = self.sums(conn, totals!("recipient"), &self.payment.to_account, now).await?;
        Ok(SpendingTotals {
            account_hour_minor: account.hour_minor,
            account_day_minor: account.day_minor,
            account_day_count: account.day_count,
            recipient_hour_minor: recipient.hour_minor,
            recipient_day_minor: recipient.day_minor,
        })
    }

    async fn sums(
        &self,
        conn: &mut Connection,
        sql: &'static str,
        party: &str,
        now: EpochMs,
    ) -> Result<Sums, sqlx::Error> {
        let bound = [
            self.tenant.0.as_str().into(),
            party.into(),
            self.payment.currency.as_str().into(),
            since(now, DAY_MS).into(),
            since(now, HOUR_MS).into(),
            self.id.to_string().into(),
        ];
        let row = conn.row(sql, &bound).await?.ok_or(sqlx::Error::RowNotFound)?;
        Ok(Sums {
            hour_minor: sum_of_halves(row.at(0)?, row.at(1)?),
            day_minor: sum_of_halves(row.at(2)?, row.at(3)?),
            day_count: row.at::<i64>(4)?.unsigned_abs(),
        })
    }

    /// Records the payment as decided now, and removes some that are older than a day. A repeated decision counts from the later one,
    /// since it is valid from then.
    pub(crate) async fn record(&self, conn: &mut Connection, now: EpochMs) -> Result<(), Stop> {
        let (id, intent_hash) = (self.id.to_string(), self.intent_hash.to_string());
        let sql = "SELECT max(at_ms) FROM payment WHERE operation_id = ?1";
        let before: Option<i64> = conn.value(sql, &[id.as_str().into()]).await?;
        let row = row::Payment {
            operation_id: &id,
            intent_hash: &intent_hash,
            tenant: &self.tenant.0,
            account: &self.payment.from_account,
            recipient: &self.payment.to_account,
            currency: &self.payment.currency,
            amount_minor: self.payment.amount_minor.max(0),
            at_ms: before.unwrap_or_default().max(integer(now.0)),
        };
        let sql = "INSERT OR REPLACE INTO payment \
                   (operation_id, intent_hash, tenant, account, recipient, currency, amount_minor, at_ms, row_hash) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);\n\
                   DELETE FROM payment WHERE operation_id IN \
                   (SELECT operation_id FROM payment WHERE at_ms <= ?10 ORDER BY at_ms LIMIT ?11)";
        let bound = [
            row.operation_id.into(),
            row.intent_hash.into(),
            row.tenant.into(),
            row.account.into(),
            row.recipient.into(),
            row.currency.into(),
            row.amount_minor.into(),
            row.at_ms.into(),
            row.hash()?.to_string().into(),
            since(now, DAY_MS).into(),
            REMOVED_MAX.into(),
        ];
        Ok(conn.run(sql, &bound).await?)
    }
}

/// Compares each row with its hash.
pub(crate) async fn check_rows(conn: &mut Connection) -> Result<(), RecordError> {
    let sql = "SELECT * FROM payment WHERE operation_id > ?1 ORDER BY operation_id LIMIT 1000";
    let mut after = String::new();
    loop {
        let rows = conn.rows(sql, &[after.as_str().into()]).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.get("operation_id")?;
        for found in rows {
            let text = |column| found.get::<String>(column);
            let row = row::Payment {
                operation_id: &text("operation_id")?,
                intent_hash: &text("intent_hash")?,
                tenant: &text("tenant")?,
                account: &text("account")?,
                recipient: &text("recipient")?,
                currency: &text("currency")?,
                amount_minor: found.get("amount_minor")?,
                at_ms: found.get("at_ms")?,
            };
            if row.hash()?.to_string() != text("row_hash")? {
                return Err(RecordError::Damaged(format!("the row of payment `{}`", row.operation_id)));
            }
        }
    }
}

fn since(now: EpochMs, window_ms: u64) -> i64 {
    integer(now.0.saturating_sub(window_ms))
}
