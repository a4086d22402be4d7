//! What the writer has done so far.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Totals since the database was opened. Syncs of the disk are not counted, because SQLite does not tell: under
/// these settings it makes one for each commit that wrote something, one when the log starts over, and two for
/// each checkpoint (about every 1,000 pages of log).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs whose transaction committed.
    pub jobs: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back, or whose COMMIT failed.
    pub rollbacks: u64,
}

/// The live counters: written by the writer alone, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    jobs: AtomicU64,
    commits: AtomicU64,
    rollbacks: AtomicU64,
    disk_is_full: AtomicBool,
}

impl Tally {
    pub(crate) fn committed(&self, n_jobs: usize) {
        self.jobs.fetch_add(n_jobs as u64, Relaxed);
        self.commits.fetch_add(1, Relaxed);
    }

    pub(crate) fn rolled_back(&self) {
        self.rollbacks.fetch_add(1, Relaxed);
    }

    /// How the last transaction found the disk; whether that is news.
    pub(crate) fn disk(&self, is_full: bool) -> bool {
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
