//! Counters of the writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Totals since the database was opened. Syncs of the disk are not counted, because SQLite does not report them: it
/// makes one for each commit that wrote something, one when the log starts over, and two for each checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs whose transaction committed.
    pub jobs: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back, or whose COMMIT failed.
    pub rollbacks: u64,
}

/// The live counters, which only the writer changes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    jobs: AtomicU64,
    commits: AtomicU64,
    rollbacks: AtomicU64,
    disk_is_full: AtomicBool,
}

impl Tally {
    pub(crate) fn record_commit(&self, n_jobs: usize) {
        self.jobs.fetch_add(n_jobs as u64, Relaxed);
        self.commits.fetch_add(1, Relaxed);
    }

    pub(crate) fn record_rollback(&self) {
        self.rollbacks.fetch_add(1, Relaxed);
    }

    /// Records whether the disk was full at the last transaction. Returns true if that changed.
    pub(crate) fn record_disk(&self, is_full: bool) -> bool {
        self.disk_is_full.swap(is_full, Relaxed) != is_full
    }

    pub(crate) fn disk_is_full(&self) -> bool {
        self.disk_is_full.load(Relaxed)
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            jobs: self.jobs.load(Relaxed),
            commits: self.commits.load(Relaxed),
            rollbacks: self.rollbacks.load(Relaxed),
        }
    }
}
