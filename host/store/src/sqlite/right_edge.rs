//! The log's right edge, kept in the writer's memory so that a commit reads nothing to know its root.

use crate::ledger::peaks;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{Frontier, Place, leaf_hash};
use gateway_sqlite::State;
use sqlx::SqliteConnection;

#[derive(Clone)]
pub(crate) struct RightEdge {
    // INVARIANT: as many leaves as `events` has rows; kept by `CommitJob::apply`, put back by the writer on rollback.
    pub(crate) frontier: Frontier,
}

impl State for RightEdge {
    /// One read for each peak, of which a log of n events has at most log2(n) + 1.
    async fn load(conn: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let last: Option<i64> =
            sqlx::query_scalar("SELECT max(ledger_index) FROM events").fetch_one(&mut *conn).await?;
        let n_leaves = last.map_or(0, |last| last.unsigned_abs().saturating_add(1));
        let mut found = Vec::new();
        for place in peaks(n_leaves) {
            found.push(peak(conn, place).await?);
        }
        let frontier =
            Frontier::from_parts(n_leaves, found).ok_or_else(|| damaged("its peaks do not fit"))?;
        if let Some(last) = last {
            check_root(conn, last, frontier.root()).await?;
        }
        Ok(Self { frontier })
    }
}

async fn peak(conn: &mut SqliteConnection, Place { level, index }: Place) -> Result<Hex32, sqlx::Error> {
    let (sql, is_leaf) = match level {
        0 => ("SELECT event_hash FROM events WHERE ?1 = 0 AND ledger_index = ?2", true),
        _ => ("SELECT hash FROM ledger_nodes WHERE level = ?1 AND position = ?2", false),
    };
    let position = i64::try_from(index).unwrap_or(i64::MAX);
    let row: Option<Vec<u8>> =
        sqlx::query_scalar(sql).bind(level).bind(position).fetch_optional(conn).await?;
    let hash = hex32(&row.ok_or_else(|| damaged("a node is missing"))?)?;
    Ok(if is_leaf { leaf_hash(hash) } else { hash })
}

/// The log's last event is also the last of its operation, whose row has the root right after it.
async fn check_root(conn: &mut SqliteConnection, last: i64, root: Hex32) -> Result<(), sqlx::Error> {
    let sql = "SELECT ledger_root FROM operations JOIN events USING (operation_id) WHERE ledger_index = ?1";
    let stored: Vec<u8> = sqlx::query_scalar(sql).bind(last).fetch_one(conn).await?;
    if hex32(&stored)? == root { Ok(()) } else { Err(damaged("its root is not the last operation's")) }
}

fn hex32(bytes: &[u8]) -> Result<Hex32, sqlx::Error> {
    bytes.try_into().map(Hex32::new).map_err(|_| damaged("a hash is not 32 bytes"))
}

fn damaged(how: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the log of events is damaged: {how}").into())
}
