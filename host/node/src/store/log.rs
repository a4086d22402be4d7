//! The node's log: one entry for each receipt, appended in the transaction of the step ([`gateway_domain::node_log`]).
//!
//! The writer keeps the right edge of the tree in memory ([`LogState`]), so that an entry costs one INSERT. A row has the roots of
//! the complete subtrees that its entry ends: the node at level `l` with index `i` is in the row of entry `(i + 1) * 2^l - 1`.

use crate::call::AdmitRequest;
use crate::error::{NodeError, NodeRejection, Stop, decided_before};
use crate::limits::LOG_ENTRIES_MAX;
use crate::store::columns::column;
use crate::store::rollback::{self, Rollback};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{Frontier, NodePosition, Subtree, empty_root};
use gateway_domain::node_log::{HEAD_PAYLOAD_TYPE, LogEntry, LogHead, ReleasedShare, SignedLogHead};
use gateway_domain::receipt::{ReceiptStatement, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_seal::node_key::NodeSecret;
use gateway_sqlite::{Connection, Row, State};

/// The right edge of the log, and whether the node is stopped.
#[derive(Clone, Debug)]
pub(crate) struct LogState {
    // INVARIANT: has as many leaves as the table has rows. The jobs that append update it; the writer restores it on rollback.
    frontier: Frontier,
    pub(crate) rollback: Option<Rollback>,
}

/// The row of a new entry.
#[derive(Debug)]
pub(crate) struct EntryRow {
    pub(crate) log_index: i64,
    pub(crate) body: String,
    pub(crate) nodes: Vec<u8>,
}

impl LogState {
    /// The number of entries.
    pub(crate) const fn size(&self) -> u64 {
        self.frontier.n_leaves()
    }

    /// Appends an entry. The job must insert the row.
    pub(crate) fn append(&mut self, entry: &LogEntry) -> Result<EntryRow, Stop> {
        let leaf = entry.leaf()?;
        let body = serde_json::to_string(entry).map_err(NodeError::damaged)?;
        let completed = self.frontier.append(leaf);
        let mut nodes = leaf.as_bytes().to_vec();
        completed.iter().for_each(|node| nodes.extend_from_slice(node.hash.as_bytes()));
        Ok(EntryRow { log_index: column(entry.log_index())?, body, nodes })
    }

    /// Appends the entry of a receipt.
    pub(crate) fn append_receipt(
        &mut self,
        statement: &ReceiptStatement,
        share: Option<ReleasedShare>,
    ) -> Result<EntryRow, Stop> {
        let (log_index, statement) = (self.size(), statement.clone());
        self.append(&LogEntry::Receipt { log_index, statement, share })
    }

    /// Whether the node has stopped because of a rollback.
    pub(crate) fn is_stopped(&self) -> bool {
        self.rollback.is_some_and(|rollback| rollback.readmitted.is_none())
    }

    /// The time of the last readmission, or 0.
    pub(crate) fn readmitted_at(&self) -> EpochMs {
        let readmitted = self.rollback.and_then(|rollback| rollback.readmitted);
        readmitted.map_or(EpochMs(0), |readmission| readmission.at_ms)
    }

    /// Refuses an operation that the node may have signed before a rollback.
    pub(crate) fn check_decided_since(
        &self,
        request: &AdmitRequest,
        decision: &AdmissionDecision,
    ) -> Result<(), NodeRejection> {
        rollback::check_decided_since(self.readmitted_at(), request, decision)
    }

    /// Refuses nonces that were made before the last readmission, of an operation that was decided before it.
    pub(crate) fn check_not_before(&self, not_before: EpochMs) -> Result<(), NodeRejection> {
        let readmitted_at = self.readmitted_at();
        if readmitted_at == EpochMs(0) || not_before > readmitted_at { Ok(()) } else { Err(decided_before()) }
    }
}

impl State for LogState {
    async fn load(conn: &mut Connection) -> Result<Self, sqlx::Error> {
        let last: Option<i64> = conn.value("SELECT max(log_index) FROM log_entry", &[]).await?;
        let size = last.map_or(0, |last| last.unsigned_abs().saturating_add(1));
        let mut peaks = Vec::new();
        for position in Subtree::whole(size).into_iter().flat_map(Subtree::positions) {
            peaks.push(tree_node(conn, position).await?);
        }
        let frontier = Frontier::from_parts(size, peaks).ok_or_else(|| damaged("it has the wrong peaks"))?;
        Ok(Self { frontier, rollback: Rollback::load(conn).await? })
    }
}

/// The root of a complete subtree.
async fn tree_node(
    conn: &mut Connection,
    NodePosition { level, index }: NodePosition,
) -> Result<Hex32, sqlx::Error> {
    let row = index.saturating_add(1).checked_shl(level).and_then(|end| end.checked_sub(1));
    let row = row.and_then(|row| i64::try_from(row).ok());
    let sql = "SELECT substr(nodes, ?2 * 32 + 1, 32) FROM log_entry WHERE log_index = ?1";
    let found = conn.row(sql, &[row.into(), level.into()]).await?;
    let hash = found.map(|row| row.at::<Vec<u8>>(0)).transpose()?.and_then(|hash| hash.try_into().ok());
    hash.map(Hex32::new).ok_or_else(|| damaged("a node of its tree is missing"))
}

fn damaged(how: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the node's log is damaged: {how}").into())
}

/// The position of the receipt for this statement. `None` if the node has not signed it.
///
/// # Errors
/// [`NodeError::Unavailable`] when the node signed another statement for this step.
pub(crate) async fn find_receipt(
    conn: &mut Connection,
    wanted: &ReceiptStatement,
) -> Result<Option<u64>, Stop> {
    match find_statement(conn, wanted).await? {
        Some((log_index, statement)) if statement == *wanted => Ok(Some(log_index)),
        Some(_) => Err(OTHER_RECEIPT.into()),
        None => Ok(None),
    }
}

/// The statement that the node signed for the transition of this one, with its position.
pub(crate) async fn find_statement(
    conn: &mut Connection,
    wanted: &ReceiptStatement,
) -> Result<Option<(u64, ReceiptStatement)>, Stop> {
    let sql = "SELECT body FROM log_entry WHERE operation_id = ?1 AND transition_hash = ?2";
    let bound = [wanted.operation_id.to_string().into(), wanted.transition_hash.to_string().into()];
    match conn.row(sql, &bound).await?.map(|row| entry(&row)).transpose()? {
        Some(LogEntry::Receipt { log_index, statement, .. }) => Ok(Some((log_index, statement))),
        Some(LogEntry::Lost { .. } | LogEntry::Readmitted { .. }) => Err(OTHER_RECEIPT.into()),
        None => Ok(None),
    }
}

/// The position of the receipt for a statement that the node has signed.
pub(crate) async fn receipt_index(conn: &mut Connection, wanted: &ReceiptStatement) -> Result<u64, Stop> {
    Ok(find_receipt(conn, wanted).await?.ok_or(OTHER_RECEIPT)?)
}

const OTHER_RECEIPT: NodeError =
    NodeError::unavailable("the node's store is damaged: its log has no receipt for the recorded step");

/// Reads the column `body`.
pub(crate) fn entry(row: &Row) -> Result<LogEntry, NodeError> {
    serde_json::from_str(row.get::<&str>("body")?).map_err(NodeError::damaged)
}

/// The entry at this position; `None` if the log is shorter.
pub(crate) async fn entry_at(conn: &mut Connection, index: u64) -> Result<Option<LogEntry>, Stop> {
    let Ok(index) = i64::try_from(index) else { return Ok(None) };
    let sql = "SELECT body FROM log_entry WHERE log_index = ?1";
    Ok(conn.row(sql, &[index.into()]).await?.map(|row| entry(&row)).transpose()?)
}

/// Whether the node signed a receipt for this transition.
pub(crate) async fn has_entry(
    conn: &mut Connection,
    id: OperationId,
    transition_hash: Hex32,
) -> Result<bool, Stop> {
    let sql = "SELECT EXISTS (SELECT 1 FROM log_entry WHERE operation_id = ?1 AND transition_hash = ?2)";
    Ok(conn.value(sql, &[id.to_string().into(), transition_hash.to_string().into()]).await?)
}

/// Whether a readmission covers this position: the operator accepted that the log had another entry there.
pub(crate) async fn is_readmitted(conn: &mut Connection, index: u64) -> Result<bool, Stop> {
    let sql = "SELECT EXISTS (SELECT 1 FROM log_entry WHERE operation_id IS NULL AND log_index > ?1 \
               AND body ->> '$.type' = 'readmitted' AND body ->> '$.lost_from' <= ?1)";
    Ok(conn.value(sql, &[column(index)?.into()]).await?)
}

/// Inserts the row of an entry that is not the last step of its operation, or that is about the log itself.
pub(crate) async fn insert_entry(
    conn: &mut Connection,
    statement: Option<&ReceiptStatement>,
    row: &EntryRow,
) -> Result<(), Stop> {
    let sql = "INSERT INTO log_entry (log_index, operation_id, transition_hash, body, nodes) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let bound = [
        row.log_index.into(),
        statement.map(|statement| statement.operation_id.to_string()).into(),
        statement.map(|statement| statement.transition_hash.to_string()).into(),
        row.body.as_str().into(),
        row.nodes.as_slice().into(),
    ];
    Ok(conn.run(sql, &bound).await?)
}

/// The root of the log when it had the size `size`; `None` if it is shorter now.
pub(crate) async fn root_at(conn: &mut Connection, size_now: u64, size: u64) -> Result<Option<Hex32>, Stop> {
    match Subtree::whole(size) {
        None => Ok(Some(empty_root())),
        Some(whole) if size <= size_now => Ok(Some(root(conn, whole).await?)),
        Some(_) => Ok(None),
    }
}

pub(crate) async fn root(conn: &mut Connection, subtree: Subtree) -> Result<Hex32, Stop> {
    let mut nodes = Vec::new();
    for position in subtree.positions() {
        nodes.push((position, tree_node(conn, position).await?));
    }
    let hash_at = |wanted| nodes.iter().find(|(position, _)| *position == wanted).map(|(_, hash)| *hash);
    Ok(subtree.root(hash_at).map_err(|_| OTHER_RECEIPT)?)
}

/// The signed head of the log on this connection.
pub(crate) async fn signed_head(
    conn: &mut Connection,
    participant: ParticipantIndex,
    secret: &NodeSecret,
    at_ms: EpochMs,
) -> Result<SignedLogHead, NodeError> {
    let state = LogState::load(conn).await?;
    let head = LogHead { participant, size: state.size(), root: state.frontier.root(), at_ms };
    let signature = secret.sign_statement(HEAD_PAYLOAD_TYPE, &head.payload()?);
    Ok(SignedLogHead { head, signature: Signature::new(signature) })
}

/// Up to `n_max` entries, and at most [`LOG_ENTRIES_MAX`], from this position on.
pub(crate) async fn entries(
    conn: &mut Connection,
    from: u64,
    n_max: u32,
) -> Result<Vec<LogEntry>, NodeError> {
    let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
    let sql = "SELECT body FROM log_entry WHERE log_index >= ?1 ORDER BY log_index LIMIT ?2";
    conn.rows(sql, &[from.into(), n_max.min(LOG_ENTRIES_MAX).into()]).await?.iter().map(entry).collect()
}
