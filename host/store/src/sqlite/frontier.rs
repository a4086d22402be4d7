//! The right edge of the log of all events. The writer keeps it in memory, so that a commit computes the log's new
//! root without a read.

use crate::decode;
use crate::encode::{integer, policies};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{Completed, Frontier, NodePosition, Subtree, leaf_hash};
use gateway_sqlite::State;
use sqlx::SqliteConnection;

/// The last entry of the log, an event or an activation, with the root stored beside it. The last event of the log is also
/// the last event of its operation, whose row holds the root right after it.
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
pub(crate) struct LogFrontier(
    // INVARIANT: has as many leaves as the log has entries. The jobs that append update it; the writer restores it on
    // rollback.
    pub(super) Frontier,
);

/// The log after some more entries.
pub(super) struct Appended {
    /// The frontier after them.
    pub(super) frontier: LogFrontier,
    /// The inner nodes that they complete.
    pub(super) nodes: Vec<Completed>,
    /// The root after them.
    pub(super) root: Hex32,
}

impl LogFrontier {
    /// Appends the entries with these hashes to a copy.
    pub(super) fn append(&self, entry_hashes: impl Iterator<Item = Hex32>) -> Appended {
        let mut frontier = self.0.clone();
        let nodes = entry_hashes.flat_map(|hash| frontier.append(leaf_hash(hash))).collect();
        Appended { root: frontier.root(), nodes, frontier: Self(frontier) }
    }

    /// The index of the next entry, as a column.
    pub(super) fn next_index(&self) -> i64 {
        integer(self.0.n_leaves())
    }
}

impl State for LogFrontier {
    /// Reads one node for each peak (a log of n entries has at most log2(n) + 1), and counts all entries to detect a
    /// missing one: the last activation is the policy's high-water mark.
    async fn load(conn: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let last: Option<(i64, Option<Vec<u8>>)> = sqlx::query_as(LAST).fetch_optional(&mut *conn).await?;
        let n_leaves = last.as_ref().map_or(0, |(last, _)| last.unsigned_abs().saturating_add(1));
        check_entries(conn, n_leaves).await?;
        let mut found = Vec::new();
        for position in peaks(n_leaves) {
            found.push(peak(conn, position).await?);
        }
        let frontier = Frontier::from_parts(n_leaves, found)
            .ok_or_else(|| damaged("it has the wrong number of peaks"))?;
        if let Some((_, root)) = last
            && hex32(&root.unwrap_or_default())? != frontier.root()
        {
            return Err(damaged("its root is not the one stored with its last entry"));
        }
        check_activations(conn).await?;
        Ok(Self(frontier))
    }
}

/// The positions of the roots of the complete subtrees of a log with `size` entries, largest first.
fn peaks(size: u64) -> impl Iterator<Item = NodePosition> + Send {
    Subtree::whole(size).into_iter().flat_map(Subtree::positions)
}

/// Checks that every index up to the last has an entry, and that no node is stored for further entries.
async fn check_entries(conn: &mut SqliteConnection, n_leaves: u64) -> Result<(), sqlx::Error> {
    let n_entries: i64 = sqlx::query_scalar(ENTRIES).fetch_one(&mut *conn).await?;
    if n_entries.unsigned_abs() != n_leaves {
        return Err(damaged(
            "an event or a policy activation is missing; `operation-gateway ledger fsck` says which",
        ));
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM ledger_nodes WHERE level = 1 AND position >= ?1)";
    let has_more: bool = sqlx::query_scalar(sql).bind(integer(n_leaves / 2)).fetch_one(conn).await?;
    if has_more { Err(damaged("its last entries are missing")) } else { Ok(()) }
}

/// Checks the hash chain of the activations and that the last one ever added is still there. There are few of them.
async fn check_activations(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    type Row = (i64, i64, Vec<u8>, String, String, String, Vec<u8>);
    let rows: Vec<Row> = sqlx::query_as(ACTIVATIONS).fetch_all(&mut *conn).await?;
    let (mut previous, mut reached) = (Hex32::ZERO, None);
    for (at_ms, sequence, bundle_hash, kind, signers, reason, row_hash) in rows {
        let stored = decode::activation((at_ms, sequence, bundle_hash, kind, signers, reason));
        let row = stored.and_then(|activation| policies::activation(&activation));
        let expected = row.ok().and_then(|row| row.hash(previous).ok());
        previous = hex32(&row_hash)?;
        if expected != Some(previous) {
            return Err(damaged("a policy activation does not match its hash"));
        }
        reached = Some(sequence);
    }
    let counted: Option<i64> = sqlx::query_scalar(COUNTED).fetch_optional(conn).await?;
    if counted == reached { Ok(()) } else { Err(damaged("the last policy activation is missing")) }
}

async fn peak(
    conn: &mut SqliteConnection,
    NodePosition { level, index }: NodePosition,
) -> Result<Hex32, sqlx::Error> {
    let query = match level {
        0 => sqlx::query_scalar(LEAF).bind(integer(index)),
        _ => sqlx::query_scalar(NODE).bind(i64::from(level)).bind(integer(index)),
    };
    let row: Option<Vec<u8>> = query.fetch_optional(conn).await?;
    let hash = hex32(&row.ok_or_else(|| damaged("a node is missing"))?)?;
    Ok(if level == 0 { leaf_hash(hash) } else { hash })
}

fn hex32(bytes: &[u8]) -> Result<Hex32, sqlx::Error> {
    bytes.try_into().map(Hex32::new).map_err(|_| damaged("a hash is not 32 bytes"))
}

fn damaged(how: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the log of events is damaged: {how}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn frontier_can_be_rebuilt_from_stored_peaks() {
        let mut frontier = LogFrontier(Frontier::default());
        let mut stored = BTreeMap::new();
        for n in 0..300_u64 {
            let peaks = peaks(n).map(|at| stored[&at]).collect();
            assert_eq!(Frontier::from_parts(n, peaks), Some(frontier.0.clone()), "{n} leaves");
            let hash = Hex32::new([u8::try_from(n % 251).unwrap(); 32]);
            let appended = frontier.append([hash].into_iter());
            stored.insert(NodePosition { level: 0, index: n }, leaf_hash(hash));
            let position = |node: &Completed| NodePosition { level: node.level, index: node.index };
            stored.extend(appended.nodes.iter().map(|node| (position(node), node.hash)));
            frontier = appended.frontier;
        }
    }
}
