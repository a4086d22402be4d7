//! Payments over time, in the databases of gateways, authorities and nodes.
//!
//! Each has a table `spending` with a row for every payment that it counts. As a row is written, triggers add it to `spending_sums`: for
//! the account, the recipient, the submitter and the key of the payment, what they paid up to each minute in which they paid. A window is
//! the difference of two such rows, so that it costs the same for ten payments and for ten million.
//!
//! The tables of SQLite are here; the gateway's store has the same for PostgreSQL.
//!
//! [`documents`] has what authorities and nodes remember of documents.

pub mod documents;

use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{KEPT_MS, MINUTE_MS, Parties, Party, Sum, WINDOWS, minute};
use gateway_domain::time::EpochMs;
use gateway_sqlite::{Cell, Connection, Row};

/// What a migration of SQLite creates beside `spending` (`operation_id`, `tenant`, `account`, `recipient`, `submitter`, `key_id`,
/// `currency`, `amount_minor`, `at_ms`) and `rows_dropped` (`name`, `through`).
pub const SCHEMA: &str = include_str!("../sql/sqlite.sql");

/// For each party, what it paid up to the minute before each window, and up to now. Payments after now count too: the clock may have been
/// set back.
pub const TOTALS: &str = "SELECT s.currency AS currency, CAST(p.column1 AS BIGINT) AS party, CAST(e.column1 AS BIGINT) AS edge, s.high AS high, s.low AS low, s.n AS n
    FROM (VALUES (0, $3), (1, $4), (2, $5), (3, $6)) AS p
    CROSS JOIN (VALUES (0, $7), (1, $8), (2, $9), (3, $10), (4, 9223372036854775807)) AS e
    JOIN spending_sums AS s ON s.tenant = $1 AND s.currency = $2 AND s.party = p.column1 AND s.name = p.column2
        AND s.minute = (SELECT max(t.minute) FROM spending_sums AS t WHERE t.tenant = $1 AND t.currency = $2
            AND t.party = p.column1 AND t.name = p.column2 AND t.minute <= e.column2)";

/// What the parameters of [`TOTALS`] are, in order.
pub const TOTALS_OF: [&str; 10] = [
    "tenant",
    "currency",
    "account",
    "recipient",
    "submitter",
    "key_id",
    "before_1h",
    "before_24h",
    "before_7d",
    "before_30d",
];

/// Parties and minutes, some of those after the minute `$1`, for which `spending_sums` does not have what `spending` has.
pub const DIFFERENCE: &str = "WITH paid AS (
        SELECT tenant, currency, party, name, minute, CAST(sum(high) AS BIGINT) AS high, CAST(sum(low) AS BIGINT) AS low,
            count(*) AS n
        FROM spending_parties GROUP BY tenant, currency, party, name, minute),
    summed AS (
        SELECT tenant, currency, party, name, minute, high - lag(high, 1, CAST(0 AS BIGINT)) OVER w AS high,
            low - lag(low, 1, CAST(0 AS BIGINT)) OVER w AS low, n - lag(n, 1, CAST(0 AS BIGINT)) OVER w AS n
        FROM spending_sums WINDOW w AS (PARTITION BY tenant, currency, party, name ORDER BY minute)),
    grown AS (SELECT * FROM summed WHERE high <> 0 OR low <> 0 OR n <> 0)
    SELECT * FROM (SELECT * FROM paid WHERE minute > $1 EXCEPT SELECT * FROM grown) AS missing
    UNION ALL SELECT * FROM (SELECT * FROM grown WHERE minute > $1 EXCEPT SELECT * FROM paid) AS invented
    LIMIT 100";

/// Rows that are dropped with one payment: more than are added, so that they do not pile up, and few enough for the next caller.
const DROPPED_MAX: i64 = 1_000;

/// The payment itself, which does not count, if it has a row already.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The time of its decision.
    pub at: EpochMs,
    /// Its amount.
    pub amount_minor: i64,
}

/// The values of the parameters of [`TOTALS`], for each currency in which payments count.
#[must_use]
pub fn bound(parties: &Parties, now: EpochMs) -> Vec<Vec<Cell>> {
    let bound = |currency| {
        let texts = [parties.tenant.0.as_str(), currency].into_iter();
        let names = Party::ALL.into_iter().map(|party| parties.name(party).unwrap_or_default());
        let edges = WINDOWS.into_iter().map(|(_, window_ms)| Cell::from(before(now, window_ms)));
        texts.chain(names).map(Cell::from).chain(edges).collect()
    };
    parties.currencies().map(bound).collect()
}

/// The totals in the rows of [`TOTALS`] of all currencies; `None` if they are not what it selects.
#[must_use]
pub fn totals(parties: &Parties, rows: &[Row], now: EpochMs, own: Option<Own>) -> Option<SpendingTotals> {
    const NOTHING: [[Sum; WINDOWS.len() + 1]; Party::ALL.len()] =
        [[Sum { high: 0, low: 0, n: 0 }; WINDOWS.len() + 1]; Party::ALL.len()];
    let mut sums: Vec<_> = parties.currencies().map(|currency| (currency, NOTHING)).collect();
    for row in rows {
        let (_, sums) = sums.iter_mut().find(|(currency, _)| row.text("currency") == Some(*currency))?;
        let [party, edge, high, low, n] =
            ["party", "edge", "high", "low", "n"].map(|column| row.integer(column));
        let (party, edge) = (usize::try_from(party?).ok()?, usize::try_from(edge?).ok()?);
        *sums.get_mut(party)?.get_mut(edge)? = Sum { high: high?, low: low?, n: n? };
    }
    let mut totals = SpendingTotals::default();
    for (currency, sums) in sums {
        let own = own.filter(|_| currency == parties.currency);
        for (party, [edges @ .., latest]) in Party::ALL.into_iter().zip(sums) {
            if parties.name(party).is_none() {
                continue;
            }
            let mut windows = edges.map(|edge| latest.since(edge));
            for (window, (_, window_ms)) in windows.iter_mut().zip(WINDOWS) {
                let own = own.filter(|own| column(minute(own.at)) > before(now, window_ms));
                *window = own.map_or(*window, |own| window.since(Sum::of(own.amount_minor)));
            }
            totals.insert_of(party, parties, currency, windows);
        }
    }
    Some(totals)
}

/// The totals of a payment's parties.
///
/// # Errors
/// The database's.
pub async fn read(
    conn: &mut Connection,
    parties: &Parties,
    now: EpochMs,
    own: Option<Own>,
) -> Result<SpendingTotals, sqlx::Error> {
    let mut rows = Vec::new();
    for bound in bound(parties, now) {
        rows.extend(conn.rows(TOTALS, &bound).await?);
    }
    totals(parties, &rows, now, own).ok_or(sqlx::Error::RowNotFound)
}

/// Drops some of the payments that count in no window now.
///
/// # Errors
/// The database's.
pub async fn drop_old(conn: &mut Connection, now: EpochMs) -> Result<(), sqlx::Error> {
    let kept_from = through_minute_before(now.0.saturating_sub(KEPT_MS));
    let sql = "SELECT max(at_ms) FROM (SELECT at_ms FROM spending WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)";
    let last: Option<i64> = conn.value(sql, &[kept_from.into(), DROPPED_MAX.into()]).await?;
    let Some(through) = last.map(end_of_minute) else { return Ok(()) };
    let sql = "INSERT INTO rows_dropped (name, through) VALUES ('spending', ?1) \
               ON CONFLICT (name) DO UPDATE SET through = max(through, excluded.through);\n\
               DELETE FROM spending WHERE at_ms <= ?1";
    conn.run(sql, &[through.into()]).await
}

/// Compares `spending_sums` with `spending`. Returns rows that differ, with the columns of the key.
///
/// # Errors
/// The database's.
pub async fn differences(conn: &mut Connection) -> Result<Vec<Row>, sqlx::Error> {
    let sql = "SELECT max(through) FROM rows_dropped WHERE name = 'spending'";
    let through: Option<i64> = conn.value(sql, &[]).await?;
    conn.rows(DIFFERENCE, &[dropped_minute(through).into()]).await
}

/// The last minute that [`DIFFERENCE`] does not compare, by the time of the last payment that was dropped.
#[must_use]
pub fn dropped_minute(through: Option<i64>) -> i64 {
    through.map_or(-1, |at_ms| column(minute(EpochMs(at_ms.unsigned_abs()))))
}

/// The last millisecond of the minute before the one that a time is in.
#[must_use]
pub fn through_minute_before(at_ms: u64) -> i64 {
    column(at_ms / MINUTE_MS * MINUTE_MS).saturating_sub(1)
}

/// The last millisecond of the minute that a time is in. Payments of a minute are dropped together: what was before the minute is
/// forgotten with them.
#[must_use]
pub fn end_of_minute(at_ms: i64) -> i64 {
    through_minute_before(at_ms.unsigned_abs().saturating_add(MINUTE_MS))
}

/// The last minute before a window.
fn before(now: EpochMs, window_ms: u64) -> i64 {
    column(minute(EpochMs(now.0.saturating_sub(window_ms)))).saturating_sub(1)
}

/// A number as a database stores it.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
