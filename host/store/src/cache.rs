//! What was read or written lately, so that the next read need not ask the database.
//!
//! Sound for a backend that one process alone writes (SQLite: the lock beside the file sees to it). A reader that was
//! overtaken by a write keeps its value to itself: it remembers the generation it began in, and every write begins a
//! new one.

use gateway_domain::key::CustodyKey;
use gateway_engine::ports::Record;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries a generation of the cache holds; two generations are kept. An operation is some kilobytes, and at most some
/// hundred.
const ENTRIES_MAX: usize = 128;

/// A value that counts its changes.
pub(crate) trait Revised {
    /// Of two values of one key the later has the higher; what does not exist has none.
    fn revision(&self) -> Option<u64>;
}

impl Revised for Record {
    fn revision(&self) -> Option<u64> {
        Some(self.operation.revision)
    }
}

impl Revised for Option<CustodyKey> {
    fn revision(&self) -> Option<u64> {
        self.as_ref().map(|key| key.revision)
    }
}

/// The latest values by key; the longest unused are forgotten.
#[derive(Debug)]
pub(crate) struct LruCache<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    n_writes: u64,
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
}

/// When a read began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadStart(u64);

impl<K: Ord + Copy, V: Clone + Revised> LruCache<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Entries { n_writes: 0, young: BTreeMap::new(), old: BTreeMap::new() }))
    }

    /// The value, or the beginning of a read that will find it.
    pub(crate) fn get(&self, key: K) -> Result<V, ReadStart> {
        let mut entries = self.lock();
        if let Some(value) = entries.young.get(&key) {
            return Ok(value.clone());
        }
        match entries.old.remove(&key) {
            Some(value) => {
                entries.keep(key, value.clone());
                Ok(value)
            }
            None => Err(ReadStart(entries.n_writes)),
        }
    }

    /// Keeps what a read found, unless something was written since it began.
    pub(crate) fn found(&self, began: ReadStart, key: K, value: V) {
        let mut entries = self.lock();
        if entries.n_writes == began.0 {
            entries.keep(key, value);
        }
    }

    /// Keeps what was written durably, unless a later write of the same was told first: whoever committed first need
    /// not be the first to say so.
    pub(crate) fn written(&self, key: K, value: V) {
        let mut entries = self.lock();
        entries.n_writes += 1;
        let told = entries.old.remove(&key).or_else(|| entries.young.remove(&key));
        let latest = match told {
            Some(told) if told.revision() > value.revision() => told,
            Some(_) | None => value,
        };
        entries.keep(key, latest);
    }

    /// Forgets what may or may not have been written.
    pub(crate) fn invalidate(&self, key: K) {
        let mut entries = self.lock();
        entries.n_writes += 1;
        entries.young.remove(&key);
        entries.old.remove(&key);
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        // A panic between two of the statements above leaves entries that are true, or none.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord, V> Entries<K, V> {
    fn keep(&mut self, key: K, value: V) {
        if self.young.len() >= ENTRIES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value is its own revision.
    impl Revised for u64 {
        fn revision(&self) -> Option<u64> {
            Some(*self)
        }
    }

    #[test]
    fn a_read_that_a_write_overtook_is_not_kept() {
        let recent = LruCache::new();
        let began = recent.get(1).unwrap_err();
        recent.written(1, 2_u64);
        recent.found(began, 1, 1);
        assert_eq!(recent.get(1).unwrap(), 2);
        let began = recent.get(2).unwrap_err();
        recent.invalidate(2);
        recent.found(began, 2, 1);
        assert!(recent.get(2).is_err());
    }

    #[test]
    fn an_earlier_write_that_is_told_later_changes_nothing() {
        let recent = LruCache::new();
        for revision in [7_u64, 6, 5] {
            recent.written(1, revision);
        }
        assert_eq!(recent.get(1).unwrap(), 7);
        for key in 2..2 + ENTRIES_MAX {
            recent.written(key, 0);
        }
        recent.written(1, 6);
        assert_eq!(recent.get(1).unwrap(), 7, "also from the older generation");
        recent.written(1, 8);
        assert_eq!(recent.get(1).unwrap(), 8);
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let recent = LruCache::new();
        recent.written(0, 0_u64);
        for key in 1..4 * ENTRIES_MAX {
            assert_eq!(recent.get(0).unwrap(), 0, "used all the time");
            recent.written(key, u64::try_from(key).unwrap());
        }
        assert!(recent.get(1).is_err());
        let entries = recent.lock();
        assert!(entries.young.len() + entries.old.len() <= 2 * ENTRIES_MAX);
    }
}
