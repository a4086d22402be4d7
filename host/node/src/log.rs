//! The node's log as callers see it. A stopped node answers these calls too.

pub(crate) mod rollback;

use crate::call::{Call, ShownReceipt};
use crate::error::{NodeError, other_decision};
use crate::limits::LOG_ENTRIES_MAX;
use crate::node::Node;
use crate::store::log::{self, LogState};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{Subtree, subtree};
use gateway_domain::node_log::{LogEntry, SignedLogHead};
use gateway_domain::operation::EffectStep;
use gateway_sqlite::State as _;

impl Node {
    /// The head of the log, signed now.
    pub async fn log_head(&self) -> Result<SignedLogHead, NodeError> {
        let mut conn = self.database.readers().snapshot().await?;
        log::signed_head(&mut conn, self.participant(), &self.secret, self.now()).await
    }

    /// Up to `n_max` entries, and at most [`LOG_ENTRIES_MAX`], from this position on.
    pub async fn log_entries(&self, from: u64, n_max: u32) -> Result<Vec<LogEntry>, NodeError> {
        log::entries(&mut self.database.readers().acquire().await?, from, n_max).await
    }

    /// The first [`LOG_ENTRIES_MAX`] entries about this operation.
    pub async fn log_entries_of(&self, id: OperationId) -> Result<Vec<LogEntry>, NodeError> {
        let sql = "SELECT body FROM log_entry WHERE operation_id = ?1 ORDER BY log_index LIMIT ?2";
        let mut conn = self.database.readers().acquire().await?;
        let rows = conn.rows(sql, &[id.to_string().into(), LOG_ENTRIES_MAX.into()]).await?;
        rows.iter().map(log::entry).collect()
    }

    /// The receipts that this node signed for the step of the call, with their statements, for a caller that lost them. Nothing is
    /// done: empty for a step that the node has not made.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::AdmissionConflict`](crate::Code::AdmissionConflict) when the operation was admitted by another decision;
    /// [`NodeError::Unavailable`] when the store failed.
    pub async fn recover(&self, call: &Call) -> Result<Vec<ShownReceipt>, NodeError> {
        let known = self.operation(call.effect.operation).await?;
        if known.is_some_and(|known| known.admission_hash != call.admission_hash) {
            return Err(other_decision().into());
        }
        let mut found = Vec::new();
        for entry in self.log_entries_of(call.effect.operation).await? {
            let LogEntry::Receipt { log_index, statement, .. } = entry else { continue };
            let has_attempts = matches!(statement.step, EffectStep::Execute | EffectStep::Discard);
            let is_wanted = statement.step == call.effect.step
                && (!has_attempts || statement.attempt == call.effect.attempt);
            if is_wanted {
                let receipt = self.issue_receipt(&statement, log_index)?;
                found.push(ShownReceipt { statement, receipt });
            }
        }
        Ok(found)
    }

    /// The proof that the log of this size has the entry at this position (RFC 6962, section 2.1.1). `None` if the log is
    /// shorter, or that size has no such entry.
    pub async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<Vec<Hex32>>, NodeError> {
        self.log_proof(size, subtree::inclusion(index, size)).await
    }

    /// The proof that the log of size `second` begins with the log of size `first` (RFC 6962, section 2.1.2). `None` if the log
    /// is shorter, or there is no such proof.
    pub async fn log_consistency(&self, first: u64, second: u64) -> Result<Option<Vec<Hex32>>, NodeError> {
        self.log_proof(second, subtree::consistency(first, second)).await
    }

    async fn log_proof(
        &self,
        size: u64,
        parts: Option<Vec<Subtree>>,
    ) -> Result<Option<Vec<Hex32>>, NodeError> {
        let mut conn = self.database.readers().snapshot().await?;
        let is_reached = size <= LogState::load(&mut conn).await?.size();
        let Some(parts) = parts.filter(|_| is_reached) else { return Ok(None) };
        let mut proof = Vec::new();
        for part in parts {
            proof.push(log::root(&mut conn, part).await?);
        }
        Ok(Some(proof))
    }
}
