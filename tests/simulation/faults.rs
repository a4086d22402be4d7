//! The faults, their points, and how often each met an operation of which outcome.

use std::collections::BTreeMap;

/// A fault that the schedule injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    RequestLost,
    ReplyLost,
    RequestDelayed,
    ReplyDelayed,
    RequestDuplicated,
    Partition,
    NodeCrashBefore,
    NodeCrashAfter,
    NodeDiskError,
    NodeRestored,
    MachineRestored,
    GatewayCrashBefore,
    GatewayCrashAfter,
    StoreDiskError,
    StoreReplyLost,
    AuthorityDown,
    ClockJump,
    ClientRetry,
}

impl Fault {
    pub(crate) const ALL: [Self; 18] = [
        Self::RequestLost,
        Self::ReplyLost,
        Self::RequestDelayed,
        Self::ReplyDelayed,
        Self::RequestDuplicated,
        Self::Partition,
        Self::NodeCrashBefore,
        Self::NodeCrashAfter,
        Self::NodeDiskError,
        Self::NodeRestored,
        Self::MachineRestored,
        Self::GatewayCrashBefore,
        Self::GatewayCrashAfter,
        Self::StoreDiskError,
        Self::StoreReplyLost,
        Self::AuthorityDown,
        Self::ClockJump,
        Self::ClientRetry,
    ];

    /// Its name in traces and counts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RequestLost => "request-lost",
            Self::ReplyLost => "reply-lost",
            Self::RequestDelayed => "request-delayed",
            Self::ReplyDelayed => "reply-delayed",
            Self::RequestDuplicated => "request-duplicated",
            Self::Partition => "partition",
            Self::NodeCrashBefore => "node-crash-before",
            Self::NodeCrashAfter => "node-crash-after",
            Self::NodeDiskError => "node-disk-error",
            Self::NodeRestored => "node-restored",
            Self::MachineRestored => "machine-restored",
            Self::GatewayCrashBefore => "gateway-crash-before",
            Self::GatewayCrashAfter => "gateway-crash-after",
            Self::StoreDiskError => "store-disk-error",
            Self::StoreReplyLost => "store-reply-lost",
            Self::AuthorityDown => "authority-down",
            Self::ClockJump => "clock-jump",
            Self::ClientRetry => "client-retry",
        }
    }

    /// The fault of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// What it does, for the page.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::RequestLost => "the request does not arrive; the caller gets an error",
            Self::ReplyLost => "the step is made; the caller gets an error",
            Self::RequestDelayed => "the caller gets an error; the request arrives later",
            Self::ReplyDelayed => "the answer arrives after later messages",
            Self::RequestDuplicated => "the request arrives a second time, later",
            Self::Partition => "a replica and a node do not reach each other for a while",
            Self::NodeCrashBefore => "the node's process dies before it handles the request",
            Self::NodeCrashAfter => "the node's process dies after its commit, before the answer leaves",
            Self::NodeDiskError => "every write to the node's disk fails during the step",
            Self::NodeRestored => "the node's database is replaced by an older copy",
            Self::MachineRestored => {
                "all files of the node are replaced by an older copy, also the one that has the size of its log"
            }
            Self::GatewayCrashBefore => "the replica dies before its request is handled",
            Self::GatewayCrashAfter => {
                "the replica dies after the request was handled, before it gets the answer"
            }
            Self::StoreDiskError => "every write to the store's disk fails during the commit",
            Self::StoreReplyLost => "the store commits; the replica gets an error",
            Self::AuthorityDown => "the authority does not answer for a while",
            Self::ClockJump => "the clock of one process goes forward or back",
            Self::ClientRetry => "a client repeats its request, at any replica",
        }
    }
}

/// How the operation that met a fault ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) n_published: u64,
    pub(crate) n_failed: u64,
    /// Faults that met no operation, or one that was never created.
    pub(crate) n_none: u64,
}

/// The counts of one run, or the sum of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) n_runs: u64,
    pub(crate) n_operations: u64,
    pub(crate) n_published: u64,
    pub(crate) n_failed: u64,
    pub(crate) n_messages: u64,
    pub(crate) n_shares: u64,
    pub(crate) n_key_changes: u64,
    pub(crate) n_keys: u64,
    /// Processor time, in milliseconds.
    pub(crate) cpu_ms: u64,
    /// Violations by kind.
    pub(crate) violations: BTreeMap<String, u64>,
    /// Failed operations by the code of the failure.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Known gaps by name.
    pub(crate) gaps: BTreeMap<String, u64>,
    /// By name of the fault and point.
    pub(crate) faults: BTreeMap<(String, String), Ends>,
}

impl Counts {
    /// The numbers without names, each with its name.
    pub(crate) const fn totals(&mut self) -> [(&'static str, &mut u64); 9] {
        [
            ("runs", &mut self.n_runs),
            ("operations", &mut self.n_operations),
            ("published", &mut self.n_published),
            ("failed", &mut self.n_failed),
            ("messages", &mut self.n_messages),
            ("shares", &mut self.n_shares),
            ("key_changes", &mut self.n_key_changes),
            ("keys", &mut self.n_keys),
            ("cpu_ms", &mut self.cpu_ms),
        ]
    }

    pub(crate) fn add(&mut self, mut other: Self) {
        for ((_, to), (_, from)) in self.totals().into_iter().zip(other.totals()) {
            *to += *from;
        }
        for (kind, n) in other.violations {
            *self.violations.entry(kind).or_default() += n;
        }
        for (code, n) in other.failures {
            *self.failures.entry(code).or_default() += n;
        }
        for (gap, n) in other.gaps {
            *self.gaps.entry(gap).or_default() += n;
        }
        for (at, ends) in other.faults {
            let to = self.faults.entry(at).or_default();
            to.n_published += ends.n_published;
            to.n_failed += ends.n_failed;
            to.n_none += ends.n_none;
        }
    }
}
