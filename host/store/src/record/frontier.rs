//! The right edge of the log of all events. The writer keeps it in memory, so that a commit computes the log's new
//! root without a read.

use crate::record::decode;
use crate::record::encode::policies;
use crate::sql::connection::Connection;
use crate::sql::row::{Hashes, Row, integer};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{Completed, Frontier, NodePosition, Subtree, leaf_hash};

/// The last entry of the log, an event or an activation, with the root stored beside it. The last event of the log is also
/// the last event of its operation, whose row holds the root right after it.
pub(crate) const LAST: &str = "SELECT ledger_index, ledger_root FROM (
        SELECT ledger_index, (SELECT ledger_root FROM operations AS of_it
            WHERE of_it.operation_id = events.operation_id) AS ledger_root
        FROM events ORDER BY ledger_index DESC LIMIT 1) AS last_event
    UNION ALL SELECT ledger_index, ledger_root FROM (
        SELECT ledger_index, ledger_root FROM policy_activations ORDER BY ledger_index DESC LIMIT 1) AS last_activation
    ORDER BY ledger_index DESC LIMIT 1";
const ENTRIES: &str =
    "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM policy_activations) AS n_entries";
const LEAF: &str = "SELECT hash FROM ledger_leaves WHERE ledger_index = $1";
const NODE: &str = "SELECT hash FROM ledger_nodes WHERE level = $1 AND position = $2";
const ACTIVATIONS: &str = "SELECT at_ms, sequence, bundle_hash, kind, signers, reason, row_hash
    FROM policy_activations ORDER BY sequence";

#[derive(Clone, Debug)]
pub(crate) struct LogFrontier(
    // INVARIANT: has as many leaves as the log has entries. The jobs that append update it; the writer restores it on
    // rollback.
    pub(crate) Frontier,
);

/// The log after some more entries.
pub(crate) struct Appended {
    pub(crate) frontier: LogFrontier,
    /// The inner nodes that they complete.
    pub(crate) nodes: Vec<Completed>,
    pub(crate) root: Hex32,
}

impl LogFrontier {
    /// Appends the entries with these hashes to a copy.
    pub(crate) fn append(&self, entry_hashes: impl Iterator<Item = Hex32>) -> Appended {
        let mut frontier = self.0.clone();
        let nodes = entry_hashes.flat_map(|hash| frontier.append(leaf_hash(hash))).collect();
        Appended { root: frontier.root(), nodes, frontier: Self(frontier) }
    }

    pub(crate) fn root(&self) -> Hex32 {
        self.0.root()
    }

    /// Whether a log of `n_leaves` entries has at most `n_max` more than this one.
    pub(crate) fn is_behind(&self, n_leaves: u64, n_max: u64) -> bool {
        n_leaves.checked_sub(self.0.n_leaves()).is_some_and(|n_more| n_more <= n_max)
    }

    /// The index of the next entry, as a column.
    pub(crate) fn next_index(&self) -> i64 {
        integer(self.0.n_leaves())
    }
}

/// Loads the frontier, and counts all entries to detect a missing one: the last activation is the policy's high-water mark.
pub(crate) async fn load_and_check<C: Connection>(conn: &mut C) -> Result<LogFrontier, sqlx::Error> {
    let frontier = load(conn).await?;
    check_entries(conn, frontier.0.n_leaves()).await?;
    check_activations(conn).await?;
    Ok(frontier)
}

/// Loads the frontier in one state of the database. Reads one node for each peak: a log of n entries has at most log2(n) + 1.
pub(crate) async fn load<C: Connection>(conn: &mut C) -> Result<LogFrontier, sqlx::Error> {
    let last = conn.rows(LAST, &[]).await?;
    let last = last.first();
    let n_leaves = last.and_then(|row| row.integer("ledger_index"));
    let n_leaves = n_leaves.map_or(0, |last| last.unsigned_abs().saturating_add(1));
    let mut found = Vec::new();
    for position in peaks(n_leaves) {
        found.push(peak(conn, position).await?);
    }
    let frontier =
        Frontier::from_parts(n_leaves, found).ok_or_else(|| damaged("it has the wrong number of peaks"))?;
    if let Some(last) = last
        && hash(last, "ledger_root")? != frontier.root()
    {
        return Err(damaged("its root is not the one stored with its last entry"));
    }
    Ok(LogFrontier(frontier))
}

/// The positions of the roots of the complete subtrees of a log with `size` entries, largest first.
fn peaks(size: u64) -> impl Iterator<Item = NodePosition> + Send {
    Subtree::whole(size).into_iter().flat_map(Subtree::positions)
}

/// Checks that every index up to the last has an entry, and that no node is stored for further entries.
async fn check_entries<C: Connection>(conn: &mut C, n_leaves: u64) -> Result<(), sqlx::Error> {
    let n_entries = conn.rows(ENTRIES, &[]).await?;
    let n_entries = n_entries.first().and_then(|row| row.integer("n_entries")).unwrap_or_default();
    if n_entries.unsigned_abs() != n_leaves {
        return Err(damaged(
            "an event or a policy activation is missing; `operation-gateway ledger fsck` says which",
        ));
    }
    let sql = "SELECT position FROM ledger_nodes WHERE level = 1 AND position >= $1 LIMIT 1";
    let further = conn.rows(sql, &[integer(n_leaves / 2).into()]).await?;
    if further.is_empty() { Ok(()) } else { Err(damaged("its last entries are missing")) }
}

/// Checks the hash chain of the activations and that the last one ever added is still there. There are few of them.
async fn check_activations<C: Connection>(conn: &mut C) -> Result<(), sqlx::Error> {
    let (mut previous, mut reached) = (Hex32::ZERO, None);
    for row in conn.rows(ACTIVATIONS, &[]).await? {
        let stored = decode::activation(&row).and_then(|activation| policies::activation(&activation));
        let expected = stored.ok().and_then(|row| row.hash(previous).ok());
        previous = hash(&row, "row_hash")?;
        if expected != Some(previous) {
            return Err(damaged("a policy activation does not match its hash"));
        }
        reached = row.integer("sequence");
    }
    let counted = conn.statements().counted();
    let counted = conn.rows(&counted, &["policy_activations".into()]).await?;
    let counted = counted.first().and_then(|row| row.integer("seq"));
    if counted == reached { Ok(()) } else { Err(damaged("the last policy activation is missing")) }
}

async fn peak<C: Connection>(
    conn: &mut C,
    NodePosition { level, index }: NodePosition,
) -> Result<Hex32, sqlx::Error> {
    let rows = match level {
        0 => conn.rows(LEAF, &[integer(index).into()]).await?,
        _ => conn.rows(NODE, &[i64::from(level).into(), integer(index).into()]).await?,
    };
    let row = rows.first().ok_or_else(|| damaged("a node is missing"))?;
    let hash = hash(row, "hash")?;
    Ok(if level == 0 { leaf_hash(hash) } else { hash })
}

fn hash(row: &Row, column: &str) -> Result<Hex32, sqlx::Error> {
    row.hash(column).ok_or_else(|| damaged("a hash is not 32 bytes"))
}

pub(crate) fn damaged(how: &'static str) -> sqlx::Error {
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
