//! The size of the node's log and whether the node has stopped, which every call compares.

use crate::call::ShownReceipt;
use crate::error::NodeError;
use crate::store::log::LogState;
use gateway_domain::ids::Hex32;
use gateway_domain::receipt::ReceiptStatement;
use gateway_domain::time::EpochMs;
use gateway_sqlite::{SizeFile, SizeFileError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the node knows of its log without reading it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) size: AtomicU64,
    pub(crate) is_stopped: AtomicBool,
    /// The time of the last readmission, or 0.
    pub(crate) readmitted_at_ms: AtomicU64,
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
        let mut known = self.known.lock();
        if known.len() >= KNOWN_RECEIPTS_MAX {
            known.pop_front();
        }
        known.push_back((log_index, statement.transition_hash));
    }

    pub(crate) fn is_known(&self, shown: &ShownReceipt) -> bool {
        self.known.lock().contains(&(shown.receipt.log_index, shown.statement.transition_hash))
    }

    pub(crate) fn readmitted_at(&self) -> EpochMs {
        EpochMs(self.readmitted_at_ms.load(Ordering::SeqCst))
    }
}
