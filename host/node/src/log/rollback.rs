//! A node whose database was restored from an older copy: it notices, stops, and goes on only after an operator's readmission.
//!
//! A node notices when it starts and its log is shorter than it was ([`SizeFile`]), or when it is shown a receipt or a head
//! that it signed itself and its log does not have: at a position that the log has not reached, or where it has another entry.
//! From then on it refuses every step, also after a restart, until
//! [`Node::readmit`].
//!
//! What the lost part of the log contained is not known: receipts that are shown prove single entries of it, and no caller can be
//! made to show all of them. So a readmitted node treats everything that was approved or decided before the readmission as
//! possibly signed ([`LogState::check_decided_since`]): it releases no share and makes no shares for it, and it signs no receipt
//! that it will not sign it. Nonces are in memory only, so none survived the restart.

use crate::call::AdmitRequest;
use crate::call::ShownReceipt;
use crate::error::{Code, NodeError, Rejection, Stop};
use crate::limits::READMIT_LOST_MAX;
use crate::node::{Node, Transact};
use crate::store::log::{self, LogState, column};
use crate::store::row_hash;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::Hex32;
use gateway_domain::node_log::{LogEntry, SignedLogHead};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_sqlite::{SizeFile, SizeFileError, State as _};
use parking_lot::{Mutex, MutexGuard};
use sqlx::{Row as _, SqliteConnection};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The last rollback that the node knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rollback {
    /// The size that the log had at least before the rollback.
    pub(crate) size_shown: u64,
    /// The first position at which the log may have had another entry.
    pub(crate) lost_from: u64,
    /// The readmission; `None` while the node is stopped.
    pub(crate) readmitted: Option<Readmission>,
}

/// The entry of a readmission, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readmission {
    pub(crate) log_index: u64,
    pub(crate) at_ms: EpochMs,
}

/// What every call compares, so it is in memory too.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    size: AtomicU64,
    is_stopped: AtomicBool,
    /// The time of the last readmission, or 0.
    readmitted_at_ms: AtomicU64,
    /// The last receipts that the log is known to have.
    known: Mutex<VecDeque<(u64, Hex32)>>,
    size_file: Option<SizeFile>,
}

/// Receipts that are not looked up again when they are shown, in memory. A caller shows one of the last few.
const KNOWN_RECEIPTS_MAX: usize = 64;

pub(crate) fn unusable_size_file(error: SizeFileError) -> NodeError {
    NodeError::caused_by("the file with the size of the node's log cannot be used", error)
}

impl Watch {
    pub(crate) fn new(state: &LogState, size_file: Option<SizeFile>) -> Self {
        let watch = Self { size_file, ..Self::default() };
        watch.size.store(state.size(), Ordering::SeqCst);
        watch.is_stopped.store(state.is_stopped(), Ordering::SeqCst);
        watch.readmitted_at_ms.store(state.readmitted_at().0, Ordering::SeqCst);
        watch
    }

    /// Notes that the log has at least this size, which must be durable.
    pub(crate) fn grow(&self, size: u64) -> Result<(), NodeError> {
        self.size.fetch_max(size, Ordering::SeqCst);
        self.size_file.as_ref().map_or(Ok(()), |file| file.raise(size)).map_err(unusable_size_file)
    }

    /// Notes that the log has this receipt.
    pub(crate) fn note(&self, log_index: u64, statement: &ReceiptStatement) {
        let mut known = self.known();
        if known.len() >= KNOWN_RECEIPTS_MAX {
            known.pop_front();
        }
        known.push_back((log_index, statement.transition_hash));
    }

    fn is_known(&self, shown: &ShownReceipt) -> bool {
        self.known().contains(&(shown.receipt.log_index, shown.statement.transition_hash))
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<(u64, Hex32)>> {
        // No update can panic midway, so a poisoned queue is still consistent.
        self.known.lock()
    }

    fn readmitted_at(&self) -> EpochMs {
        EpochMs(self.readmitted_at_ms.load(Ordering::SeqCst))
    }
}

/// The node has stopped.
pub(crate) const STOPPED: NodeError = NodeError::unavailable(
    "the node has stopped: its database is older than what it signed, and an operator must readmit it",
);

const TOO_MUCH_LOST: NodeError = NodeError::unavailable(
    "the node's log lacks more entries than a readmission fills: restore a newer copy, or replace the node",
);

/// Refuses what was decided or approved before the node was readmitted. Approvals count by their signed time, whose clock may be
/// ahead.
fn check_decided_since(
    readmitted_at: EpochMs,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
) -> Result<(), Rejection> {
    let latest_claim = i64::try_from(readmitted_at.plus_ms(CLOCK_SKEW_MS).0).unwrap_or(i64::MAX);
    let mut signed = request.approvals.iter().filter(|approval| approval.signature.is_some());
    let is_older = decision.not_before_ms <= readmitted_at
        || signed.any(|approval| approval.claimed_at_ms <= latest_claim);
    if readmitted_at == EpochMs(0) || !is_older { Ok(()) } else { Err(decided_before()) }
}

/// The refusal of an operation that the node may have signed before a rollback.
pub(crate) fn decided_before() -> Rejection {
    let detail = "the operation was approved or decided before the node was restored and readmitted: it may have signed it";
    Rejection::new(Code::DecidedBeforeReadmission, detail)
}

impl LogState {
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
    ) -> Result<(), Rejection> {
        check_decided_since(self.readmitted_at(), request, decision)
    }

    /// Refuses nonces that were made before the last readmission, of an operation that was decided before it.
    pub(crate) fn check_not_before(&self, not_before: EpochMs) -> Result<(), Rejection> {
        let readmitted_at = self.readmitted_at();
        if readmitted_at == EpochMs(0) || not_before > readmitted_at { Ok(()) } else { Err(decided_before()) }
    }
}

impl Rollback {
    pub(crate) async fn load(conn: &mut SqliteConnection) -> Result<Option<Self>, sqlx::Error> {
        let sql = "SELECT size_shown, lost_from, readmitted_index, readmitted_at_ms FROM rolled_back";
        let Some(row) = sqlx::query(sql).fetch_optional(conn).await? else { return Ok(None) };
        let number = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
        let index: Option<i64> = row.try_get("readmitted_index")?;
        let readmitted = match index {
            Some(index) => Some(Readmission {
                log_index: index.unsigned_abs(),
                at_ms: EpochMs(number("readmitted_at_ms")?),
            }),
            None => None,
        };
        Ok(Some(Self { size_shown: number("size_shown")?, lost_from: number("lost_from")?, readmitted }))
    }

    async fn store(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let readmitted = self.readmitted.map(|readmission| (readmission.log_index, readmission.at_ms.0));
        let row_hash = row_hash::rolled_back(self.size_shown, self.lost_from, readmitted)?;
        let sql = "INSERT OR REPLACE INTO rolled_back \
                   (one, size_shown, lost_from, readmitted_index, readmitted_at_ms, row_hash) \
                   VALUES (1, ?1, ?2, ?3, ?4, ?5)";
        sqlx::query(sql)
            .bind(column(self.size_shown)?)
            .bind(column(self.lost_from)?)
            .bind(readmitted.map(|(index, _)| column(index)).transpose()?)
            .bind(readmitted.map(|(_, at_ms)| column(at_ms)).transpose()?)
            .bind(row_hash.to_string())
            .execute(conn)
            .await?;
        Ok(())
    }
}

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
            return Err(Rejection::new(Code::ReceiptRefused, "the receipt is not this node's").into());
        }
        let mut conn = self.database.reader().acquire().await?;
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
    ///
    /// # Errors
    /// As [`Self::show_receipt`].
    pub async fn show_head(&self, shown: &SignedLogHead) -> Result<(), NodeError> {
        let head = shown.head;
        let is_own =
            head.participant == self.participant() && shown.is_signed_by(&self.identity().signing_key());
        if !is_own {
            return Err(Rejection::new(Code::ReceiptRefused, "the head is not this node's").into());
        }
        let mut conn = self.database.reader().begin().await?;
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
        if self.is_stopped() { Err(STOPPED) } else { Ok(()) }
    }

    /// As [`LogState::check_decided_since`].
    pub(crate) fn check_decided_since(
        &self,
        request: &AdmitRequest,
        decision: &AdmissionDecision,
    ) -> Result<(), Rejection> {
        check_decided_since(self.watch.readmitted_at(), request, decision)
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
            Ok(()) => STOPPED,
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

    async fn run(&self, conn: &mut SqliteConnection, log: &mut LogState) -> Result<(), Stop> {
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

    async fn run(&self, conn: &mut SqliteConnection, log: &mut LogState) -> Result<Readmission, Stop> {
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
