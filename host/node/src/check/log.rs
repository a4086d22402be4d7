//! The checks of the node's log: each entry is the leaf that the tree has, and the step, share or readmission that it records is in
//! the other tables.

use super::{CheckError, Checker, check_hash};
use crate::store::log;
use crate::store::row_hash;
use crate::store::tables::hash;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::node_hash;
use gateway_domain::node_log::{LogEntry, ReleasedShare};
use gateway_domain::receipt::ReceiptStatement;
use gateway_sqlite::{Cell, Row};

const HASH_BYTES: usize = 32;

impl Checker<'_> {
    pub(super) async fn check_log_entry(&mut self, row: &Row) -> Result<(), CheckError> {
        let index = row.integer("log_index").and_then(|index| u64::try_from(index).ok());
        let index = index.ok_or("`log_index` is not a position")?;
        row.text("body").ok_or("`body` is not text")?;
        let entry = log::entry(row).map_err(|_| "`body` is not an entry")?;
        if entry.log_index() != index {
            return Err("`log_index` is not the position in `body`".into());
        }
        self.check_tree(index, &entry, row.bytes("nodes").ok_or("`nodes` are missing")?).await?;
        let stated = match &entry {
            LogEntry::Receipt { statement, .. } => {
                Some((statement.operation_id.0, statement.transition_hash))
            }
            LogEntry::Lost { .. } | LogEntry::Readmitted { .. } => None,
        };
        let columns = (*row.cell("operation_id") != Cell::Null)
            .then(|| (hash(row, "operation_id"), hash(row, "transition_hash")));
        if columns != stated.map(|(operation_id, transition)| (Some(operation_id), Some(transition))) {
            return Err("`operation_id` or `transition_hash` is not that of `body`".into());
        }
        match entry {
            LogEntry::Receipt { statement, share, .. } => self.check_receipt_entry(&statement, share).await,
            LogEntry::Readmitted { participant, .. } if participant != self.me => Err(OTHER_NODE.into()),
            LogEntry::Lost { .. } | LogEntry::Readmitted { .. } => self.check_readmitted(index).await,
        }
    }

    /// Checks that `rolled_back` has this readmission, or a later one.
    async fn check_readmitted(&mut self, index: u64) -> Result<(), CheckError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM rolled_back WHERE coalesce(readmitted_index, ?1) >= ?1)";
        if self.conn.value(sql, &[i64::try_from(index).ok().into()]).await? {
            Ok(())
        } else {
            Err("the readmission is missing in `rolled_back`, one 1".into())
        }
    }

    /// Checks the leaf, and each tree node that the entry completes against its left half, which an earlier row has.
    async fn check_tree(&mut self, index: u64, entry: &LogEntry, nodes: &[u8]) -> Result<(), CheckError> {
        if index > 0 {
            // Only has to exist: an entry at an even position completes no tree node with it.
            self.last_node(index, 1).await?;
        }
        let mut hashes = nodes.chunks(HASH_BYTES);
        let mut expected = entry.leaf()?;
        for level in 0..=index.trailing_ones() {
            if level > 0 {
                let left = self.last_node(index, level).await?;
                expected = node_hash(left, expected);
            }
            if hashes.next() != Some(expected.as_bytes()) {
                return Err("`nodes` do not match `body` and the entries before it".into());
            }
        }
        if hashes.next().is_some() {
            return Err("`nodes` has more nodes than the entry completes".into());
        }
        Ok(())
    }

    /// The left half of the tree node at `level` that the entry completes: the last node, of the level below, that an earlier row
    /// completed.
    async fn last_node(&mut self, index: u64, level: u32) -> Result<Hex32, CheckError> {
        let below = level.saturating_sub(1);
        let width = 1_u64.checked_shl(below).unwrap_or(0);
        let row = index.checked_sub(width).and_then(|row| i64::try_from(row).ok());
        let sql = "SELECT substr(nodes, ?2 * 32 + 1, 32) AS node FROM log_entry WHERE log_index = ?1";
        let found = self.conn.row(sql, &[row.into(), below.into()]).await?;
        let found =
            found.ok_or_else(|| format!("the entry at log_index {} is missing", row.unwrap_or(-1)))?;
        let hash = found.bytes("node").and_then(|bytes| bytes.try_into().ok()).map(Hex32::new);
        hash.ok_or_else(|| "`nodes` of an earlier entry has too few nodes".into())
    }

    async fn check_receipt_entry(
        &mut self,
        statement: &ReceiptStatement,
        share: Option<ReleasedShare>,
    ) -> Result<(), CheckError> {
        if statement.participant != self.me {
            return Err(OTHER_NODE.into());
        }
        let id = statement.operation_id.to_string();
        let sql = "SELECT admission_hash FROM operation WHERE operation_id = ?1";
        let found = self.conn.row(sql, &[id.as_str().into()]).await?;
        let found = found.ok_or("the row belongs to no operation")?;
        if hash(&found, "admission_hash") != Some(statement.admission_hash) {
            return Err("the operation has another `admission_hash`".into());
        }
        let Some(share) = share else { return Ok(()) };
        let sql = "SELECT package_hash FROM consumed WHERE operation_id = ?1 AND attempt = ?2";
        let used = self.conn.row(sql, &[id.as_str().into(), statement.attempt.into()]).await?;
        let used = used.ok_or_else(|| {
            let attempt = statement.attempt;
            format!("the record of the nonces that signed is missing in `consumed`, operation_id {id}, attempt {attempt}")
        })?;
        if hash(&used, "package_hash") == Some(share.package_hash) {
            Ok(())
        } else {
            Err("`consumed` has another `package_hash`".into())
        }
    }

    /// Checks that the log has the entry of this step.
    pub(super) async fn check_is_logged(&mut self, id: OperationId, head: Hex32) -> Result<(), CheckError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM log_entry WHERE operation_id = ?1 AND transition_hash = ?2)";
        if self.conn.value(sql, &[id.to_string().into(), head.to_string().into()]).await? {
            Ok(())
        } else {
            Err("the log has no entry for its last step".into())
        }
    }

    pub(super) async fn check_rolled_back(&mut self, row: &Row) -> Result<(), CheckError> {
        if row.integer("one") != Some(1) {
            return Err("the table has a second row".into());
        }
        let number = |column| row.integer(column).and_then(|number| u64::try_from(number).ok());
        let (size, lost_from) = (number("size_shown"), number("lost_from"));
        let (size, lost_from) = size.zip(lost_from).ok_or("`size_shown` or `lost_from` is not a number")?;
        let readmitted = number("readmitted_index").zip(number("readmitted_at_ms"));
        check_hash(row, row_hash::rolled_back(size, lost_from, readmitted))?;
        let Some((index, at_ms)) = readmitted else {
            return Err("the node has stopped: its database is older than what it signed".into());
        };
        let sql = "SELECT body FROM log_entry WHERE log_index = ?1";
        let found = self.conn.row(sql, &[i64::try_from(index).ok().into()]).await?;
        let entry = found.and_then(|row| log::entry(&row).ok());
        match entry {
            Some(LogEntry::Readmitted { at_ms: logged, .. }) if logged.0 == at_ms => Ok(()),
            Some(LogEntry::Readmitted { .. } | LogEntry::Receipt { .. } | LogEntry::Lost { .. }) | None => {
                Err(format!("the log has no entry for the readmission, log_index {index}").into())
            }
        }
    }
}

const OTHER_NODE: &str = "the entry is another node's";
