//! Deletes rows that no decision needs any more, and measures what grows.
//!
//! Each table that loses rows has a watermark in `rows_dropped`, written in the same transaction, so that `ledger fsck` tells a row that
//! was deleted on purpose from one that is missing. Replicas may all delete: each transaction begins with the oldest rows that are left.

use crate::change::Change;
use crate::record::decode;
use crate::sql::connection::Connection;
use crate::sql::row::{Row, instant};
use crate::store::Store;
use gateway_domain::policy::spending::{HOUR_MS, KEPT_MS};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_spending::{end_of_minute, through_minute_before};

/// Rows that one transaction deletes at most: other commits wait for it.
pub const ROWS_PER_TRANSACTION_MAX: u64 = 1_000;

/// The least age of a row of `spending` that is deleted, in milliseconds: the longest window of a limit, and an hour by which a clock may
/// be set back.
pub const SPENDING_KEPT_MS_MIN: u64 = KEPT_MS + HOUR_MS;

/// A table whose old rows are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiring {
    /// `spending`: payments for limits over time.
    Spending,
    /// `policy_decisions`: refusals and faults.
    Refusals,
}

impl Expiring {
    /// Every such table.
    pub const ALL: [Self; 2] = [Self::Spending, Self::Refusals];

    /// The name of the table.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::Spending => "spending",
            Self::Refusals => "policy_decisions",
        }
    }
}

/// What is in the store, for metrics. Nothing here is counted row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the database: pages of the file, without its write-ahead log, or what the server reports.
    pub database_bytes: u64,
    /// Rows of `policy_decisions`.
    pub n_refusals: u64,
    /// Rows of `policy_previews`.
    pub n_previews: u64,
    /// When the oldest payment in `spending` was decided; `None` without one.
    pub oldest_spending: Option<EpochMs>,
}

/// When the newest event of the log was written. Read from its operation, which has no later event.
pub(crate) const NEWEST: &str = "SELECT updated_at_ms FROM operations WHERE operation_id =
    (SELECT operation_id FROM events ORDER BY ledger_index DESC LIMIT 1)";
const OLDEST_SPENDING: &str = "SELECT max(at_ms) AS through FROM (SELECT at_ms FROM spending WHERE at_ms <= $1 ORDER BY at_ms LIMIT $2) AS oldest";
const DROP_SPENDING: &str = "DELETE FROM spending WHERE at_ms <= $1 RETURNING at_ms";
const OLDEST_REFUSALS: &str =
    "SELECT decision_index, at_ms FROM policy_decisions ORDER BY decision_index LIMIT $1";
const DROP_REFUSALS: &str =
    "DELETE FROM policy_decisions WHERE decision_index <= $1 RETURNING decision_index";
const SET_DROPPED: &str = "INSERT INTO rows_dropped (name, through) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET through = excluded.through WHERE rows_dropped.through < excluded.through";

impl Store {
    /// Deletes the oldest rows of a table, of those from before `before`, in one transaction. Returns their number: fewer than
    /// [`ROWS_PER_TRANSACTION_MAX`] mean that no more are due.
    ///
    /// A row of `spending` stays as long as a limit may need it, whatever `before` is: until events are in the log that are
    /// [`SPENDING_KEPT_MS_MIN`] newer.
    ///
    /// # Errors
    /// [`Unavailable`] if nothing was deleted, because the store failed.
    pub async fn drop_rows(&self, table: Expiring, before: EpochMs) -> Result<u64, Unavailable> {
        let what = format!("old rows of `{}` could not be deleted", table.table());
        self.database.write(DropRows { table, before }, what).await
    }

    /// What is in the store.
    pub async fn size(&self) -> Result<Size, Unavailable> {
        let pool = self.database.pool();
        let statements = pool.statements();
        let sql = format!(
            "SELECT ({}) AS database_bytes, {} AS n_refusals, {} AS n_previews, coalesce(min(at_ms), -1) AS oldest_spending
             FROM spending",
            statements.database_bytes,
            kept(
                statements.counters,
                "policy_decisions",
                "SELECT through FROM rows_dropped WHERE name = 'policy_decisions'"
            ),
            kept(
                statements.counters,
                "policy_previews",
                "SELECT through_index FROM policy_previews_dropped WHERE id = 1"
            ),
        );
        let rows = pool.rows(&sql, &[], "the size of the store could not be read").await?;
        let integer = |name| match rows.first() {
            Some(row) => decode::integer("the size of the store", row, name),
            None => Ok(0),
        };
        let unsigned = |name| integer(name).map(|number| u64::try_from(number).unwrap_or_default());
        Ok(Size {
            database_bytes: unsigned("database_bytes")?,
            n_refusals: unsigned("n_refusals")?,
            n_previews: unsigned("n_previews")?,
            oldest_spending: u64::try_from(integer("oldest_spending")?).ok().map(EpochMs),
        })
    }
}

/// SQL for the number of rows of a numbered table: the last index ever, less the last one that was deleted.
fn kept(counters: &str, table: &str, dropped: &str) -> String {
    format!("coalesce((SELECT seq FROM {counters} WHERE name = '{table}'), 0) - coalesce(({dropped}), 0)")
}

/// Deletes rows of one table.
struct DropRows {
    table: Expiring,
    before: EpochMs,
}

impl Change for DropRows {
    /// The number of deleted rows.
    type Output = u64;

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<u64, sqlx::Error> {
        let (through, drop) = match self.table {
            Expiring::Spending => (self.spending(conn).await?, DROP_SPENDING),
            Expiring::Refusals => (self.refusals(conn).await?, DROP_REFUSALS),
        };
        let Some(through) = through else { return Ok(0) };
        // Before the rows are deleted: a payment that is deleted before it is dropped counts no more.
        conn.rows(SET_DROPPED, &[self.table.table().into(), through.into()]).await?;
        Ok(conn.rows(drop, &[through.into()]).await?.len() as u64)
    }
}

impl DropRows {
    /// The time of the last payment to drop; `None` without any.
    async fn spending<C: Connection>(&self, conn: &mut C) -> Result<Option<i64>, sqlx::Error> {
        let newest = conn.rows(NEWEST, &[]).await?;
        let Some(newest) = newest.first().and_then(|row| row.integer("updated_at_ms")) else {
            return Ok(None);
        };
        let unneeded = through_minute_before(newest.unsigned_abs().saturating_sub(SPENDING_KEPT_MS_MIN));
        let through = through_minute_before(self.before.0).min(unneeded);
        let oldest = conn.rows(OLDEST_SPENDING, &[through.into(), limit().into()]).await?;
        Ok(oldest.first().and_then(|row| row.integer("through")).map(end_of_minute))
    }

    /// The index of the last refusal before the first one that is not due; `None` without any.
    async fn refusals<C: Connection>(&self, conn: &mut C) -> Result<Option<i64>, sqlx::Error> {
        let oldest = conn.rows(OLDEST_REFUSALS, &[limit().into()]).await?;
        let before = instant(self.before);
        let is_due = |row: &&Row| row.integer("at_ms").is_some_and(|at_ms| at_ms < before);
        let due = oldest.iter().take_while(is_due).last();
        Ok(due.and_then(|row| row.integer("decision_index")))
    }
}

fn limit() -> i64 {
    i64::try_from(ROWS_PER_TRANSACTION_MAX).unwrap_or(i64::MAX)
}
