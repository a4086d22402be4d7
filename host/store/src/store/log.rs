//! Reads the log of all events, a Merkle tree (RFC 6962). It only grows and its rows never change, so statements that depend on
//! each other need no common transaction: a later one sees at least the entries that an earlier one saw.
//!
//! Heads and proofs are checked before they are returned. The root after the last entry is stored with that entry, and the tree
//! nodes that are read must hash up to it, so a damaged node is detected, even in a proof about an old size of the log.

use crate::error::unavailable;
use crate::record::decode::{self, integer};
use crate::record::frontier::LAST;
use crate::sql::row::{Hashes, Row, blob};
use crate::store::Store;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{
    NodePosition, Subtree, empty_root, leaf_hash, subtree, verify_consistency, verify_inclusion,
};
use gateway_engine::Unavailable;
use gateway_engine::ports::{LogConsistency, LogHead, LogInclusion, LoggedEvent, ReadLog};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const INDEX: &str = "SELECT ledger_index FROM events WHERE operation_id = $1 AND seq = $2";
const LAST_EVENT: &str =
    "SELECT ledger_index, operation_id, seq, event_hash FROM events ORDER BY ledger_index DESC LIMIT 1";
const EVENTS_FROM: &str = "SELECT ledger_index, operation_id, seq, event_hash FROM events WHERE ledger_index >= $1 ORDER BY ledger_index LIMIT $2";

#[async_trait]
impl ReadLog for Store {
    async fn log_head(&self) -> Result<LogHead, Unavailable> {
        let head = self.last_head().await?;
        if let Some(log) = Subtree::whole(head.size) {
            Nodes::read(self, log.positions(), head).await?.head(head.size)?;
        }
        Ok(head)
    }

    async fn log_index(&self, id: OperationId, seq: u64) -> Result<Option<u64>, Unavailable> {
        let Ok(seq) = i64::try_from(seq) else { return Ok(None) };
        let what = format!("the log index of an event of operation `{id}` could not be read");
        let rows = self.database.pool().rows(INDEX, &[blob(id.0), seq.into()], what).await?;
        let index = rows.first().and_then(|row| row.integer("ledger_index"));
        Ok(index.map(i64::unsigned_abs))
    }

    async fn last_event(&self) -> Result<Option<LoggedEvent>, Unavailable> {
        let rows = self.database.pool().rows(LAST_EVENT, &[], "the end of the log could not be read").await?;
        rows.first().map(logged).transpose()
    }

    async fn events_from(&self, index: u64, n_max: u32) -> Result<Vec<LoggedEvent>, Unavailable> {
        let Ok(index) = i64::try_from(index) else { return Ok(Vec::new()) };
        let rows = self
            .database
            .pool()
            .rows(
                EVENTS_FROM,
                &[index.into(), i64::from(n_max).into()],
                "the end of the log could not be read",
            )
            .await?;
        rows.iter().map(logged).collect()
    }

    async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<LogInclusion>, Unavailable> {
        let last = self.last_head().await?;
        let Some(path) = subtree::inclusion(index, size).filter(|_| size <= last.size) else {
            return Ok(None);
        };
        let leaf = NodePosition { level: 0, index };
        let positions =
            path.iter().flat_map(|part| part.positions()).chain([leaf]).chain(prefix_positions(size, last));
        let nodes = Nodes::read(self, positions, last).await?;
        let (head, hashes, leaf_hash) = (nodes.head(size)?, nodes.roots(&path)?, nodes.at(leaf)?);
        let checked = verify_inclusion(leaf_hash, index, size, &hashes, head.root);
        checked.map_err(|error| damaged(format_args!("event {index} of {size}: {error}")))?;
        Ok(Some(LogInclusion { index, leaf_hash, head, hashes }))
    }

    async fn log_consistency(&self, first: u64, second: u64) -> Result<Option<LogConsistency>, Unavailable> {
        let last = self.last_head().await?;
        let parts = subtree::consistency(first, second).filter(|_| second <= last.size);
        let Some(parts) = parts else { return Ok(None) };
        let positions = parts.iter().flat_map(|part| part.positions());
        let positions = positions.chain(prefix_positions(first, last)).chain(prefix_positions(second, last));
        let nodes = Nodes::read(self, positions, last).await?;
        let (first, second, hashes) = (nodes.head(first)?, nodes.head(second)?, nodes.roots(&parts)?);
        let checked = verify_consistency(first.size, second.size, &hashes, first.root, second.root);
        checked.map_err(|error| {
            damaged(format_args!("size {} is not consistent with size {}: {error}", first.size, second.size))
        })?;
        Ok(Some(LogConsistency { first, second, hashes }))
    }
}

impl Store {
    /// The head stored with the last entry, unchecked.
    async fn last_head(&self) -> Result<LogHead, Unavailable> {
        let rows = self.database.pool().rows(LAST, &[], "the head of the log could not be read").await?;
        let Some(row) = rows.first() else { return Ok(LogHead { size: 0, root: empty_root() }) };
        let index = integer("the last entry of the log", row, "ledger_index")?;
        let root = row.hash("ledger_root").ok_or_else(|| damaged("its last entry has no valid root"))?;
        Ok(LogHead { size: index.unsigned_abs().saturating_add(1), root })
    }
}

fn logged(row: &Row) -> Result<LoggedEvent, Unavailable> {
    let index = integer("an event", row, "ledger_index")?.unsigned_abs();
    let seq = row.integer("seq").map(i64::unsigned_abs);
    Ok(LoggedEvent { index, hash: row.hash("event_hash"), of: decode::operation_id(row).ok().zip(seq) })
}

/// The positions of the nodes that show whether the log of `size` is a prefix of the last one.
fn prefix_positions(size: u64, last: LogHead) -> impl Iterator<Item = NodePosition> {
    let parts = subtree::consistency(size, last.size).unwrap_or_default();
    Subtree::whole(size).into_iter().chain(parts).flat_map(Subtree::positions)
}

/// Nodes of the Merkle tree, and its last head, which they are checked against.
struct Nodes {
    hashes: BTreeMap<NodePosition, Hex32>,
    last: LogHead,
}

impl Nodes {
    /// Reads the nodes at these positions. Missing ones are omitted.
    async fn read(
        store: &Store,
        positions: impl Iterator<Item = NodePosition>,
        last: LogHead,
    ) -> Result<Self, Unavailable> {
        let positions: BTreeSet<NodePosition> = positions.collect();
        let (leaves, inner): (Vec<NodePosition>, Vec<NodePosition>) =
            positions.into_iter().partition(|at| at.level == 0);
        let inner: Vec<u64> = inner.into_iter().map(|at| (u64::from(at.level) << 57) | at.index).collect();
        let leaves: Vec<u64> = leaves.into_iter().map(|at| at.index).collect();
        let pool = store.database.pool();
        let bound = [json!(inner).to_string().as_str().into(), json!(leaves).to_string().as_str().into()];
        let rows =
            pool.rows(pool.statements().log_nodes, &bound, "the nodes of the log could not be read").await?;
        let mut hashes = BTreeMap::new();
        for row in rows {
            let (level, index) = (integer("a node", &row, "level")?, integer("a node", &row, "position")?);
            let level = u32::try_from(level).unwrap_or(u32::MAX);
            let position = NodePosition { level, index: index.unsigned_abs() };
            let hash = row
                .hash("hash")
                .ok_or_else(|| damaged(format_args!("the hash of {} is not 32 bytes", named(position))))?;
            hashes.insert(position, if level == 0 { leaf_hash(hash) } else { hash });
        }
        Ok(Self { hashes, last })
    }

    /// The head of the log when it had `size` entries, after a check that this log is a prefix of the last one.
    fn head(&self, size: u64) -> Result<LogHead, Unavailable> {
        let whole: Vec<Subtree> = Subtree::whole(size).into_iter().collect();
        let root = self.roots(&whole)?.first().copied().unwrap_or_else(empty_root);
        let parts = subtree::consistency(size, self.last.size).unwrap_or_default();
        let checked = verify_consistency(size, self.last.size, &self.roots(&parts)?, root, self.last.root);
        checked.map_err(|error| {
            damaged(format_args!("size {size} is not consistent with size {}: {error}", self.last.size))
        })?;
        Ok(LogHead { size, root })
    }

    fn roots(&self, subtrees: &[Subtree]) -> Result<Vec<Hex32>, Unavailable> {
        let root = |subtree: &Subtree| subtree.root(|position| self.hashes.get(&position).copied());
        subtrees.iter().map(root).collect::<Result<_, _>>().map_err(missing)
    }

    fn at(&self, position: NodePosition) -> Result<Hex32, Unavailable> {
        self.hashes.get(&position).copied().ok_or_else(|| missing(position))
    }
}

fn missing(position: NodePosition) -> Unavailable {
    damaged(format_args!("{} is missing", named(position)))
}

fn named(NodePosition { level, index }: NodePosition) -> String {
    if level == 0 { format!("event {index}") } else { format!("node {index} of level {level}") }
}

/// The error for a damaged log. It is also logged, because an operator should run `ledger fsck`.
fn damaged(how: impl std::fmt::Display) -> Unavailable {
    tracing::error!(%how, "the log of all events is damaged");
    unavailable(format_args!("the log of all events is damaged: {how}"))
}
