//! Checks the log: leaves without gaps, every inner node, and the root stored with each operation and activation.
//!
//! A node is compared with the hash of its stored children, so that one wrong hash is not reported again for every
//! node above it. If no node differs, all nodes match the leaves.

use super::check::{Check, Head, PAGE, PARTS_OF_PASS};
use super::snapshot::Stop;
use crate::sql::row::{Cell, Hashes, Row};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{Frontier, leaf_hash, node_hash};
use std::collections::BTreeMap;

/// Entries with the `ledger_root` stored for them: in the operation row for its last event, in the activation's own row.
const LEAVES: &str =
    "SELECT ledger_index, event_hash AS hash, operations.operation_id AS last_of, NULL AS sequence, ledger_root FROM (
        SELECT ledger_index, operation_id, seq, event_hash FROM events
        WHERE ledger_index >= $1 ORDER BY ledger_index LIMIT $2) AS page
    LEFT JOIN operations ON operations.operation_id = page.operation_id AND NOT EXISTS (
        SELECT 1 FROM events AS later
        WHERE later.operation_id = page.operation_id AND later.seq > page.seq)
    UNION ALL SELECT ledger_index, row_hash, NULL, sequence, ledger_root FROM policy_activations WHERE ledger_index >= $1
    ORDER BY ledger_index LIMIT $2";
/// Without arithmetic, since an altered index may be the largest integer.
const LAST_EVENT: &str = "SELECT max(ledger_index) AS ledger_index FROM events";
const NODES: &str =
    "SELECT level, position, hash FROM ledger_nodes WHERE level = $1 AND position >= $2 AND position < $3";
/// Nodes that a log with `$1` leaves does not have. Positions have at most 62 bits.
const EXTRA: &str = "SELECT level, position FROM ledger_nodes
    WHERE (level < 1 OR level > 62 OR position < 0 OR position >= ($1 >> CAST(level AS INTEGER))) AND (level, position) > ($2, $3)
    ORDER BY level, position LIMIT $4";

/// The end of the log, which PostgreSQL has in a row.
const HEAD: &str = "SELECT id, n_leaves, root FROM ledger_head ORDER BY id";

/// The most adjacent missing leaves after which the check continues.
const GAP_MAX: i64 = 4096;

/// The log as far as it has been read.
#[derive(Default)]
struct Log {
    n_leaves: i64,
    /// As in [`Frontier`]; `None` for a hash that is unknown because a leaf is missing.
    peaks: Vec<Option<Hex32>>,
    /// The inner nodes that the leaves of this page complete.
    nodes: BTreeMap<(i64, i64), Row>,
}

impl Log {
    fn root(&self) -> Option<Hex32> {
        let peaks: Option<Vec<_>> = self.peaks.iter().copied().collect();
        Frontier::from_parts(self.n_leaves.unsigned_abs(), peaks?).map(|frontier| frontier.root())
    }
}

impl Check<'_> {
    pub(super) async fn tree(&mut self) -> Result<(), Stop> {
        let mut log = Log::default();
        let mut from = i64::MIN;
        let n_all = self.rows(LAST_EVENT, &[]).await?.first().and_then(|row| row.integer("ledger_index"));
        let n_all = n_all.unwrap_or_default().unsigned_abs().saturating_add(1);
        loop {
            let leaves = self.rows(LEAVES, &[from.into(), PAGE.into()]).await?;
            let Some(last) = leaves.last().and_then(|row| row.integer("ledger_index")) else { break };
            from = last.saturating_add(1);
            self.passed(1, last.unsigned_abs().saturating_mul(PARTS_OF_PASS) / n_all);
            let n_events = leaves.iter().filter(|leaf| *leaf.cell("sequence") == Cell::Null).count();
            self.checked.n_events = self.checked.n_events.saturating_add(n_events as u64);
            if !self.leaves(&mut log, &leaves, last).await? {
                return Ok(());
            }
        }
        self.extra(log.n_leaves).await?;
        if !self.snapshot.is_file() {
            self.stored_head(&log).await?;
        }
        let n_leaves = log.n_leaves.unsigned_abs();
        self.checked.head = log.root().map(|root| Head { n_leaves, root });
        Ok(())
    }

    /// Compares the end of the log that replicas append to.
    async fn stored_head(&mut self, log: &Log) -> Result<(), Stop> {
        let rows = self.rows(HEAD, &[]).await?;
        if rows.is_empty() {
            self.finding("ledger_head", "", "its row is missing");
        }
        for row in rows {
            let is_end = row.integer("n_leaves") == Some(log.n_leaves);
            if !is_end || log.root().is_some_and(|root| row.hash("root") != Some(root)) {
                self.finding("ledger_head", row.named(&["id"]), "not the end of the log");
            }
        }
        Ok(())
    }

    /// Checks a page of leaves, up to the index `last`. Returns false if the check cannot continue.
    async fn leaves(&mut self, log: &mut Log, leaves: &[Row], last: i64) -> Result<bool, Stop> {
        self.load(log, last).await?;
        for leaf in leaves {
            let index = leaf.integer("ledger_index").unwrap_or_default();
            if index < log.n_leaves && index >= 0 {
                self.finding(table(leaf), named(leaf), "another entry has the same `ledger_index`");
                continue;
            }
            if index < 0 {
                self.finding(table(leaf), named(leaf), "`ledger_index` is negative");
                continue;
            }
            if index > log.n_leaves && table(leaf) == "policy_activations" {
                self.finding(table(leaf), named(leaf), "no entry has the `ledger_index` before it");
            }
            if !self.skip_missing(log, index) {
                return Ok(false);
            }
            self.append(log, leaf.hash("hash").map(leaf_hash));
            self.compare_root(log, leaf);
        }
        Ok(true)
    }

    /// Reads the stored nodes that the leaves up to the index `last` complete.
    async fn load(&mut self, log: &mut Log, last: i64) -> Result<(), Stop> {
        log.nodes.clear();
        let n_after = last.saturating_add(1).min(log.n_leaves.saturating_add(GAP_MAX + PAGE));
        for level in 1..63 {
            // The number of complete nodes before and after.
            let (first, end) = (log.n_leaves >> level, n_after >> level);
            if end == 0 {
                break;
            }
            for row in self.rows(NODES, &[level.into(), first.into(), end.into()]).await? {
                log.nodes.insert((level, row.integer("position").unwrap_or(-1)), row);
            }
        }
        Ok(())
    }

    /// Reports the leaves that are missing before `index`, and appends unknown ones. Returns false if there are too many.
    fn skip_missing(&mut self, log: &mut Log, index: i64) -> bool {
        let n_missing = index.saturating_sub(log.n_leaves);
        if n_missing == 0 {
            return true;
        }
        let last = index.saturating_sub(1);
        let which = match n_missing {
            1 => format!("ledger_index {last}"),
            _ => format!("ledger_index {} to {last}", log.n_leaves),
        };
        self.finding("events", which, "missing");
        if n_missing > GAP_MAX {
            self.finding("ledger_nodes", "", format!("not checked from leaf {} on", log.n_leaves));
            return false;
        }
        for _ in 0..n_missing {
            self.append(log, None);
        }
        true
    }

    /// Appends a leaf and compares the nodes that it completes.
    fn append(&mut self, log: &mut Log, leaf: Option<Hex32>) {
        let (mut hash, mut position, mut level) = (leaf, log.n_leaves, 0_i64);
        while position & 1 == 1 {
            let left = log.peaks.pop().flatten();
            position >>= 1;
            level = level.saturating_add(1);
            let computed = left.zip(hash).map(|(left, right)| node_hash(left, right));
            hash = self.node(log.nodes.get(&(level, position)), level, position, computed);
        }
        log.peaks.push(hash);
        log.n_leaves = log.n_leaves.saturating_add(1);
    }

    /// The stored hash of a node, or the computed one if it cannot be read. Reports a node that is missing or wrong.
    fn node(
        &mut self,
        stored: Option<&Row>,
        level: i64,
        position: i64,
        computed: Option<Hex32>,
    ) -> Option<Hex32> {
        let hash = stored.and_then(|row| row.hash("hash"));
        let problem = match (stored, computed) {
            (None, _) => "missing",
            (Some(_), _) if hash.is_none() => "`hash` is not 32 bytes",
            (Some(_), Some(computed)) if hash != Some(computed) => {
                "`hash` does not follow from its two children"
            }
            (Some(_), _) => return hash,
        };
        self.finding("ledger_nodes", format!("level {level}, position {position}"), problem);
        hash.or(computed)
    }

    fn compare_root(&mut self, log: &Log, leaf: &Row) {
        let Some(root) = log.root() else { return };
        let (last_of, sequence) = (leaf.cell("last_of"), leaf.cell("sequence"));
        let is_beside = *last_of != Cell::Null || *sequence != Cell::Null;
        if !is_beside || leaf.hash("ledger_root") == Some(root) {
            return;
        }
        if *sequence == Cell::Null {
            let what = "`ledger_root` is not the root after its last event";
            self.finding("operations", format!("operation_id {last_of}"), what);
        } else {
            let what = "`ledger_root` is not the root after it, or its `ledger_index` is wrong";
            self.finding("policy_activations", format!("sequence {sequence}"), what);
        }
    }

    async fn extra(&mut self, n_leaves: i64) -> Result<(), Stop> {
        let mut after = [Cell::from(i64::MIN), Cell::from(i64::MIN)];
        loop {
            let [level, position] = after.clone();
            let rows = self.rows(EXTRA, &[n_leaves.into(), level, position, PAGE.into()]).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = [last.cell("level").clone(), last.cell("position").clone()];
            for row in &rows {
                self.finding("ledger_nodes", row.named(&["level", "position"]), "no entries complete it");
            }
        }
    }
}

/// The table that holds a leaf.
fn table(leaf: &Row) -> &'static str {
    if *leaf.cell("sequence") == Cell::Null { "events" } else { "policy_activations" }
}

/// The columns by which a person finds the leaf's row.
fn named(leaf: &Row) -> String {
    let key: &[&str] =
        if *leaf.cell("sequence") == Cell::Null { &["ledger_index"] } else { &["sequence", "ledger_index"] };
    leaf.named(key)
}
