//! A node whose database was restored from an older copy: it notices, stops, and goes on only after an operator's readmission.
//!
//! A node notices when it starts and its log is shorter than it was ([`SizeFile`](gateway_sqlite::SizeFile)), or when it is shown a receipt or a head
//! that it signed itself and its log does not have: at a position that the log has not reached, or where it has another entry.
//! From then on it refuses every step, also after a restart, until
//! [`Node::readmit`].
//!
//! What the lost part of the log contained is not known: receipts that are shown prove single entries of it, and no caller can be
//! made to show all of them. So a readmitted node treats everything that was approved or decided before the readmission as
//! possibly signed ([`LogState::check_decided_since`]): it releases no share and makes no shares for it, and it signs no receipt
//! that it will not sign it. Nonces are in memory only, so none survived the restart.

use crate::call::{AdmitRequest, ShownReceipt};
use crate::error::{Code, NodeError, NodeRejection, Stop};
use crate::limits::READMIT_LOST_MAX;
use crate::node::Node;
use crate::store::log::{self, LogState};
use crate::store::rollback::{self, Readmission, Rollback};
use crate::store::transaction::Transact;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::node_log::{LogEntry, SignedLogHead};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_sqlite::{Connection, State as _};
use std::sync::atomic::Ordering;

const TOO_MUCH_LOST: NodeError = NodeError::unavailable(
    "the node's log lacks more entries than a readmission fills: restore a newer copy, or replace the node",
);

impl Node {
    /// The number of entries of the log.
    #[must_use]
    pub fn log_size(&self) -> u64 {
        self.watch.size.load(Ordering::SeqCst)
    }

    /// Whether the node has stopped because its database is older than what it signed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.watch.is_stopped.load(Ordering::SeqCst)
    }

    /// Shows the node a receipt that it signed. If its log does not have it, the database was rolled back, and the node stops.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::ReceiptRefused`] when it is not this node's valid receipt for the statement;
    /// [`NodeError::Unavailable`] when the node has stopped, or the store failed.
    pub async fn show_receipt(
        &self,
        statement: &ReceiptStatement,
        receipt: &NodeReceipt,
    ) -> Result<(), NodeError> {
        let is_own = statement.participant == self.participant()
            && receipt.verify(statement, &self.identity().signing_key()).is_ok();
        if !is_own {
            return Err(NodeRejection::new(Code::ReceiptRefused, "the receipt is not this node's").into());
        }
        let mut conn = self.database.readers().acquire().await?;
        let found = log::entry_at(&mut conn, receipt.log_index).await?;
        let is_same = match &found {
            Some(LogEntry::Receipt { statement: own, .. }) => own == statement,
            Some(LogEntry::Lost { .. } | LogEntry::Readmitted { .. }) | None => false,
        };
        if is_same || found.is_some() && log::is_readmitted(&mut conn, receipt.log_index).await? {
            return self.check_running();
        }
        drop(conn);
        let lost_from = if found.is_some() { receipt.log_index } else { self.log_size() };
        Err(self.stop(receipt.log_index.saturating_add(1), lost_from).await)
    }

    /// Shows the node the newest of its receipts that a caller knows, as [`Self::show_receipt`]. A receipt of another identity proves
    /// nothing about this node, which may have replaced it.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the node has stopped, or the store failed.
    pub async fn show_newest(&self, newest: &ShownReceipt) -> Result<(), NodeError> {
        if self.watch.is_known(newest) {
            return Ok(());
        }
        match self.show_receipt(&newest.statement, &newest.receipt).await {
            Ok(()) => self.watch.note(newest.receipt.log_index, &newest.statement),
            Err(NodeError::Rejected(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Shows the node a head that it signed. If its log does not begin with that log, the database was rolled back, and the node
    /// stops. A head whose end a readmission covers proves nothing new.
    pub async fn show_head(&self, shown: &SignedLogHead) -> Result<(), NodeError> {
        let head = shown.head;
        let is_own =
            head.participant == self.participant() && shown.is_signed_by(&self.identity().signing_key());
        if !is_own {
            return Err(NodeRejection::new(Code::ReceiptRefused, "the head is not this node's").into());
        }
        let mut conn = self.database.readers().snapshot().await?;
        let state = LogState::load(&mut conn).await?;
        let root = log::root_at(&mut conn, state.size(), head.size).await?;
        let is_same = root == Some(head.root);
        if is_same || root.is_some() && log::is_readmitted(&mut conn, head.size.saturating_sub(1)).await? {
            return self.check_running();
        }
        drop(conn);
        let lost_from = if root.is_some() { 0 } else { state.size() };
        Err(self.stop(head.size, lost_from).await)
    }

    /// Compares this node's own receipt among these with the log. A receipt that is not valid is ignored: the check of the step
    /// refuses it.
    pub(crate) async fn show_own_receipt(
        &self,
        chain: &Chain,
        kind: &ReceiptKind,
        receipts: &[NodeReceipt],
    ) -> Result<(), NodeError> {
        let me = self.participant();
        let Some(own) = receipts.iter().find(|receipt| receipt.participant == me) else { return Ok(()) };
        match self.show_receipt(&chain.statement(kind)?, own).await {
            Err(NodeError::Rejected(_)) => Ok(()),
            shown => shown,
        }
    }

    pub(crate) fn check_running(&self) -> Result<(), NodeError> {
        if self.is_stopped() { Err(NodeError::STOPPED) } else { Ok(()) }
    }

    /// As [`LogState::check_decided_since`].
    pub(crate) fn check_decided_since(
        &self,
        request: &AdmitRequest,
        decision: &AdmissionDecision,
    ) -> Result<(), NodeRejection> {
        rollback::check_decided_since(self.watch.readmitted_at(), request, decision)
    }

    /// Compares the log with the size that it is known to have had. A power failure may have lost the last sizes, not the log's
    /// entries.
    pub(crate) async fn compare_size(&self, known: u64) -> Result<(), NodeError> {
        if known <= self.log_size() {
            return self.watch.grow(self.log_size());
        }
        // Every step is refused from now on, and the node is open for its operator.
        let _stopped = self.stop(known, self.log_size()).await;
        Ok(())
    }

    /// Stops the node, drops its nonces and ceremonies, and records why. Returns the error for the caller.
    async fn stop(&self, size_shown: u64, lost_from: u64) -> NodeError {
        self.watch.is_stopped.store(true, Ordering::SeqCst);
        self.sessions.close_all();
        self.ceremonies.close_all();
        tracing::error!(
            participant = %self.participant(), size_shown, size = self.log_size(),
            "the node's database was rolled back: the node has stopped"
        );
        // If this fails, the node stays stopped until it restarts, and stops again when it is shown the same.
        match self.write(RecordRollback { size_shown, lost_from }).await {
            Ok(()) => NodeError::STOPPED,
            Err(error) => error,
        }
    }

    /// Accepts the state of a node that was restored from an older copy of its database, and lets it continue. An operator calls
    /// this: of a node that has stopped, or was restored on purpose. `size_at_least` is the size that the log had at least
    /// before, if the operator knows more than the node was shown, for instance from a signed head; otherwise 0. Returns the new
    /// head.
    ///
    /// From then on the node signs, and makes shares for, only what was approved and decided later.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when more than [`READMIT_LOST_MAX`] entries were lost, or the store failed.
    pub async fn readmit(&self, size_at_least: u64) -> Result<SignedLogHead, NodeError> {
        let readmit = Readmit { participant: self.participant(), size_at_least, now: self.now() };
        let Readmission { log_index, at_ms } = self.write(readmit).await?;
        // Nonces that were made before must not be used after.
        self.sessions.close_all();
        self.ceremonies.close_all();
        self.watch.grow(log_index.saturating_add(1))?;
        self.watch.readmitted_at_ms.fetch_max(at_ms.0, Ordering::SeqCst);
        self.watch.is_stopped.store(false, Ordering::SeqCst);
        tracing::warn!(participant = %self.participant(), log_index, "the node was readmitted");
        self.log_head().await
    }
}

/// Records that the node has stopped.
struct RecordRollback {
    size_shown: u64,
    lost_from: u64,
}

impl Transact for RecordRollback {
    type Output = ();
    const IS_STEP: bool = false;

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<(), Stop> {
        let known = log.rollback.filter(|known| known.readmitted.is_none());
        let rollback = Rollback {
            size_shown: known.map_or(0, |known| known.size_shown).max(self.size_shown),
            lost_from: known.map_or(u64::MAX, |known| known.lost_from).min(self.lost_from),
            readmitted: None,
        };
        rollback.store(conn).await?;
        log.rollback = Some(rollback);
        Ok(())
    }
}

/// Records that an operator accepts the state of the node.
struct Readmit {
    participant: ParticipantIndex,
    size_at_least: u64,
    now: EpochMs,
}

impl Transact for Readmit {
    type Output = Readmission;
    const IS_STEP: bool = false;

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<Readmission, Stop> {
        let shown = log.rollback.filter(|known| known.readmitted.is_none());
        let size = log.size();
        let resumes_at = shown.map_or(size, |known| known.size_shown).max(size).max(self.size_at_least);
        if resumes_at.saturating_sub(size) > READMIT_LOST_MAX {
            return Err(TOO_MUCH_LOST.into());
        }
        let lost_from = shown.map_or(size, |known| known.lost_from).min(size);
        // The clock may have been put back since the last readmission.
        let at_ms = self.now.max(log.readmitted_at());
        for log_index in size..resumes_at {
            log::insert_entry(conn, None, &log.append(&LogEntry::Lost { log_index })?).await?;
        }
        let (participant, log_index) = (self.participant, resumes_at);
        let entry = LogEntry::Readmitted { log_index, participant, lost_from, at_ms };
        log::insert_entry(conn, None, &log.append(&entry)?).await?;
        let readmission = Readmission { log_index, at_ms };
        let rollback = Rollback { size_shown: resumes_at, lost_from, readmitted: Some(readmission) };
        rollback.store(conn).await?;
        log.rollback = Some(rollback);
        Ok(readmission)
    }
}
