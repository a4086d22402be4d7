//! Backoff of operations that could not be driven.

use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first wait, milliseconds; each failure doubles it.
const WAIT_MIN_MS: u64 = 1_000;

/// The longest wait, milliseconds, so that operations continue within a minute after an outage.
const WAIT_MAX_MS: u64 = 60_000;

/// The wait of each operation whose last drive failed. Kept in memory only: after a restart, every operation is tried
/// immediately.
#[derive(Default)]
pub(crate) struct Backoff(Mutex<BTreeMap<OperationId, Wait>>);

#[derive(Clone, Copy)]
struct Wait {
    wait_ms: u64,
    due_at: EpochMs,
}

impl Backoff {
    /// Whether the operation's wait, if any, is over.
    pub(crate) fn is_due(&self, id: OperationId, now: EpochMs) -> bool {
        self.lock().get(&id).is_none_or(|wait| now >= wait.due_at)
    }

    /// Records a failure and returns the wait until the next try, milliseconds.
    pub(crate) fn record_failure(&self, id: OperationId, now: EpochMs) -> u64 {
        let mut waits = self.lock();
        let wait_ms = waits.get(&id).map_or(WAIT_MIN_MS, |wait| (wait.wait_ms * 2).min(WAIT_MAX_MS));
        waits.insert(id, Wait { wait_ms, due_at: now.plus_ms(wait_ms) });
        wait_ms
    }

    pub(crate) fn record_success(&self, id: OperationId) {
        self.lock().remove(&id);
    }

    /// Forgets the waits of operations that no longer owe a step.
    pub(crate) fn keep_only(&self, owing: &[OperationId]) {
        let mut waits = self.lock();
        if !waits.is_empty() {
            let owing: BTreeSet<_> = owing.iter().collect();
            waits.retain(|id, _| owing.contains(id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OperationId, Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;

    #[test]
    fn waits_double_up_to_a_minute_and_end_with_success() {
        let (backoff, id) = (Backoff::default(), OperationId(Hex32::ZERO));
        let waits: Vec<u64> = (0..8).map(|_| backoff.record_failure(id, EpochMs(0))).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert!(!backoff.is_due(id, EpochMs(59_999)) && backoff.is_due(id, EpochMs(60_000)));
        backoff.record_success(id);
        assert!(backoff.is_due(id, EpochMs(0)));
        backoff.record_failure(id, EpochMs(0));
        backoff.keep_only(&[]);
        assert!(backoff.is_due(id, EpochMs(0)));
    }
}
