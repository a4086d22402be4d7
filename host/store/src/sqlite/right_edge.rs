//! The log's right edge, kept in the writer's memory so that a commit reads nothing to know its root.

use crate::decode;
use crate::encode::policies;
use crate::ledger::peaks;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{Frontier, Place, leaf_hash};
use gateway_sqlite::State;
use sqlx::SqliteConnection;

/// The last entry of the log, event or activation, with the root that was written beside it. An event that is the log's last
/// is also the last of its operation, whose row has the root right after it.
pub(super) const LAST: &str = "SELECT ledger_index, ledger_root FROM (
        SELECT ledger_index, (SELECT ledger_root FROM operations AS of_it
            WHERE of_it.operation_id = events.operation_id) AS ledger_root
        FROM events ORDER BY ledger_index DESC LIMIT 1)
    UNION ALL SELECT ledger_index, ledger_root FROM (
        SELECT ledger_index, ledger_root FROM policy_activations ORDER BY ledger_index DESC LIMIT 1)
    ORDER BY ledger_index DESC LIMIT 1";
const ENTRIES: &str = "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM policy_activations)";
const LEAF: &str = "SELECT hash FROM ledger_leaves WHERE ledger_index = ?1";
const NODE: &str = "SELECT hash FROM ledger_nodes WHERE level = ?1 AND position = ?2";
const ACTIVATIONS: &str = "SELECT at_ms, sequence, bundle_hash, kind, signers, reason, row_hash
    FROM policy_activations ORDER BY sequence";
const COUNTED: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'policy_activations'";

#[derive(Clone)]
pub(crate) struct RightEdge {
    // INVARIANT: as many leaves as the log has entries; kept by the jobs that append, put back by the writer on rollback.
    pub(crate) frontier: Frontier,
}

impl State for RightEdge {
    /// One read for each peak, of which a log of n entries has at most log2(n) + 1, and one count of all entries: the
    /// policy's high-water mark is the last activation in the log, and one that was taken away must not go unnoticed.
    async fn load(conn: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let last: Option<(i64, Option<Vec<u8>>)> = sqlx::query_as(LAST).fetch_optional(&mut *conn).await?;
        let n_leaves = last.as_ref().map_or(0, |(last, _)| last.unsigned_abs().saturating_add(1));
        check_entries(conn, n_leaves).await?;
        let mut found = Vec::new();
        for place in peaks(n_leaves) {
            found.push(peak(conn, place).await?);
        }
        let frontier =
            Frontier::from_parts(n_leaves, found).ok_or_else(|| damaged("its peaks do not fit"))?;
        if let Some((_, root)) = last
            && hex32(&root.unwrap_or_default())? != frontier.root()
        {
            return Err(damaged("its root is not the one beside its last entry"));
        }
        check_activations(conn).await?;
        Ok(Self { frontier })
    }
}

/// Every place has an entry, and there are no nodes over entries that are not there.
async fn check_entries(conn: &mut SqliteConnection, n_leaves: u64) -> Result<(), sqlx::Error> {
    let n_entries: i64 = sqlx::query_scalar(ENTRIES).fetch_one(&mut *conn).await?;
    if n_entries.unsigned_abs() != n_leaves {
        return Err(damaged(
            "an event or a policy activation is missing; `operation-gateway ledger fsck` names its place",
        ));
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM ledger_nodes WHERE level = 1 AND position >= ?1)";
    let beyond: bool = sqlx::query_scalar(sql).bind(signed(n_leaves / 2)).fetch_one(conn).await?;
    if beyond { Err(damaged("its last entries are missing")) } else { Ok(()) }
}

/// The activations are those that were appended, each after the one before. They are few.
async fn check_activations(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    type Row = (i64, i64, Vec<u8>, String, String, String, Vec<u8>);
    let rows: Vec<Row> = sqlx::query_as(ACTIVATIONS).fetch_all(&mut *conn).await?;
    let (mut previous, mut reached) = (Hex32::ZERO, None);
    for (at_ms, sequence, bundle_hash, kind, signers, reason, row_hash) in rows {
        let stored = decode::activation((at_ms, sequence, bundle_hash, kind, signers, reason));
        let row = stored.and_then(|activation| policies::activation(&activation));
        let made = row.ok().and_then(|row| row.hash(previous).ok());
        previous = hex32(&row_hash)?;
        if made != Some(previous) {
            return Err(damaged("a policy activation is not as it was recorded"));
        }
        reached = Some(sequence);
    }
    let counted: Option<i64> = sqlx::query_scalar(COUNTED).fetch_optional(conn).await?;
    if counted == reached { Ok(()) } else { Err(damaged("the last policy activation is missing")) }
}

async fn peak(conn: &mut SqliteConnection, Place { level, index }: Place) -> Result<Hex32, sqlx::Error> {
    let query = match level {
        0 => sqlx::query_scalar(LEAF).bind(signed(index)),
        _ => sqlx::query_scalar(NODE).bind(i64::from(level)).bind(signed(index)),
    };
    let row: Option<Vec<u8>> = query.fetch_optional(conn).await?;
    let hash = hex32(&row.ok_or_else(|| damaged("a node is missing"))?)?;
    Ok(if level == 0 { leaf_hash(hash) } else { hash })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn hex32(bytes: &[u8]) -> Result<Hex32, sqlx::Error> {
    bytes.try_into().map(Hex32::new).map_err(|_| damaged("a hash is not 32 bytes"))
}

fn damaged(how: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the log of events is damaged: {how}").into())
}
