//! An LRU cache of records, in two generations: a full young generation becomes the old one, and the old one is dropped.
//!
//! If this process wrote anything since a read began, the result of the read is not cached, because it may be old. If other
//! processes may write the database too, the caller compares the revision of a cached value with the stored one.

use gateway_domain::key::CustodyKey;
use gateway_engine::ports::Record;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Entries in each of the two generations. An operation takes some kilobytes, and at most some hundred.
const ENTRIES_MAX: usize = 128;

/// A value with a revision.
pub(crate) trait Revised {
    /// The revision, which is higher for a later value of the same key. `None` if there is no such record.
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

/// The latest values by key.
#[derive(Debug)]
pub(crate) struct LruCache<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    n_writes: u64,
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
}

/// The number of writes before a read began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadStart(u64);

impl<K: Ord + Copy, V: Clone + Revised> LruCache<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Entries { n_writes: 0, young: BTreeMap::new(), old: BTreeMap::new() }))
    }

    /// The cached value; on a miss, the argument for [`fill`](Self::fill) after reading the database.
    pub(crate) fn get(&self, key: K) -> Result<V, ReadStart> {
        self.get_if(key, |_| true)
    }

    /// As [`Self::get`]. A value that the caller may not see is a miss, and is left where it is.
    pub(crate) fn get_if(&self, key: K, may_see: impl Fn(&V) -> bool) -> Result<V, ReadStart> {
        let mut entries = self.0.lock();
        if let Some(value) = entries.young.get(&key).filter(|value| may_see(value)) {
            return Ok(value.clone());
        }
        if !entries.old.get(&key).is_some_and(may_see) {
            return Err(ReadStart(entries.n_writes));
        }
        match entries.old.remove(&key) {
            Some(value) => {
                entries.keep(key, value.clone());
                Ok(value)
            }
            None => Err(ReadStart(entries.n_writes)),
        }
    }

    /// The argument for [`fill`](Self::fill) after reading the database, for a value that may be cached.
    pub(crate) fn start(&self) -> ReadStart {
        ReadStart(self.0.lock().n_writes)
    }

    /// Caches the result of a read, unless something was written since the read began.
    pub(crate) fn fill(&self, start: ReadStart, key: K, value: V) {
        let mut entries = self.0.lock();
        if entries.n_writes == start.0 {
            entries.keep(key, value);
        }
    }

    /// Caches a value that was written durably, unless a later revision is cached already: the result of the second of two
    /// commits may arrive first.
    pub(crate) fn update(&self, key: K, value: V) {
        let mut entries = self.0.lock();
        entries.n_writes += 1;
        let cached = entries.old.remove(&key).or_else(|| entries.young.remove(&key));
        let latest = match cached {
            Some(cached) if cached.revision() > value.revision() => cached,
            Some(_) | None => value,
        };
        entries.keep(key, latest);
    }

    /// Drops a value that may have been overwritten.
    pub(crate) fn invalidate(&self, key: K) {
        let mut entries = self.0.lock();
        entries.n_writes += 1;
        entries.young.remove(&key);
        entries.old.remove(&key);
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
    fn value_that_the_caller_may_not_see_is_a_miss_and_stays_where_it_is() {
        let cache = LruCache::new();
        cache.update(1, 7_u64);
        assert!(cache.get_if(1, |_| false).is_err() && cache.get_if(2, |_| false).is_err());
        {
            let mut entries = cache.0.lock();
            entries.old = std::mem::take(&mut entries.young);
        }
        assert!(cache.get_if(1, |_| false).is_err());
        assert!(cache.0.lock().young.is_empty(), "a look by another tenant keeps no record in the cache");
        assert_eq!(cache.get_if(1, |value| *value == 7).unwrap(), 7);
    }

    #[test]
    fn read_that_began_before_a_write_is_not_cached() {
        let cache = LruCache::new();
        let start = cache.get(1).unwrap_err();
        cache.update(1, 2_u64);
        cache.fill(start, 1, 1);
        assert_eq!(cache.get(1).unwrap(), 2);
        let start = cache.get(2).unwrap_err();
        cache.invalidate(2);
        cache.fill(start, 2, 1);
        assert!(cache.get(2).is_err());
    }

    #[test]
    fn earlier_revision_that_arrives_late_does_not_replace_a_later_one() {
        let cache = LruCache::new();
        for revision in [7_u64, 6, 5] {
            cache.update(1, revision);
        }
        assert_eq!(cache.get(1).unwrap(), 7);
        for key in 2..2 + ENTRIES_MAX {
            cache.update(key, 0);
        }
        cache.update(1, 6);
        assert_eq!(cache.get(1).unwrap(), 7, "in the old generation too");
        cache.update(1, 8);
        assert_eq!(cache.get(1).unwrap(), 8);
    }

    #[test]
    fn lru_evicts_least_recently_used() {
        let cache = LruCache::new();
        cache.update(0, 0_u64);
        for key in 1..4 * ENTRIES_MAX {
            assert_eq!(cache.get(0).unwrap(), 0, "used in every round");
            cache.update(key, u64::try_from(key).unwrap());
        }
        assert!(cache.get(1).is_err());
        let entries = cache.0.lock();
        assert!(entries.young.len() + entries.old.len() <= 2 * ENTRIES_MAX);
    }
}
