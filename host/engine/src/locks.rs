//! Locks by operation, account or recipient, within this process. Between replicas, the store compares revisions.

use crate::error::{Dependency, Unavailable};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tokio::sync::OwnedMutexGuard;

/// The most tasks that hold or await one lock, as many as the default connection limit. A task may outlive the
/// connection of its client, so the connection limit alone does not bound the tasks.
const TASKS_MAX: usize = 1024;

type Lock = tokio::sync::Mutex<()>;

/// Releases its lock when dropped.
pub(crate) type Locked = OwnedMutexGuard<()>;

fn too_many() -> Unavailable {
    Unavailable::new(Dependency::Runtime, "too many requests wait for the same operation or account")
}

/// Locks by name. An unused lock takes no memory.
pub(crate) struct Locks<K>(Mutex<BTreeMap<K, Weak<Lock>>>);

impl<K> Default for Locks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord> Locks<K> {
    /// Waits for the lock, first come first served.
    ///
    /// # Errors
    /// [`Unavailable`] immediately, when too many tasks already hold or await the lock.
    pub(crate) async fn lock(&self, name: K) -> Result<Locked, Unavailable> {
        Ok(self.named(name)?.lock_owned().await)
    }

    /// The lock, if no task holds or awaits it.
    pub(crate) fn try_lock(&self, name: K) -> Option<Locked> {
        self.named(name).ok()?.try_lock_owned().ok()
    }

    fn named(&self, name: K) -> Result<Arc<Lock>, Unavailable> {
        let mut locks = self.0.lock();
        // Remove unused locks before the map doubles in size.
        if locks.len() >= 1024 && locks.len().is_power_of_two() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        match locks.get(&name).and_then(Weak::upgrade) {
            // One reference for each task, created only here under the map's lock.
            Some(lock) if Arc::strong_count(&lock) > TASKS_MAX => Err(too_many()),
            Some(lock) => Ok(lock),
            None => {
                let lock = Arc::new(Lock::default());
                locks.insert(name, Arc::downgrade(&lock));
                Ok(lock)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More names than the map keeps while they are unused.
    const N_NAMES: u32 = 5_000;

    #[tokio::test]
    async fn held_locks_stay_and_unused_locks_are_removed() {
        let locks = Locks::default();
        let held = locks.lock(0).await.unwrap();
        for name in 1..N_NAMES {
            drop(locks.lock(name).await.unwrap());
        }
        assert!(locks.0.lock().len() <= 1024, "unused locks pile up");
        tokio::select! {
            biased;
            _ = locks.lock(0) => panic!("two tasks hold one lock"),
            () = std::future::ready(()) => {}
        }
        assert!(locks.try_lock(0).is_none() && locks.try_lock(N_NAMES).is_some());
        drop(held);
        drop(locks.lock(0).await.unwrap());
    }

    #[tokio::test]
    async fn a_task_over_the_limit_is_rejected_and_the_waiting_ones_keep_their_place() {
        let locks = Arc::new(Locks::default());
        let held = locks.lock("busy").await.unwrap();
        let wait = || {
            let locks = Arc::clone(&locks);
            tokio::spawn(async move { locks.lock("busy").await.map(drop) })
        };
        let waiting: Vec<_> = (1..TASKS_MAX).map(|_| wait()).collect();
        // By then every task has been polled.
        for _ in 0..TASKS_MAX {
            tokio::task::yield_now().await;
        }
        let refused = tokio::select! {
            biased;
            turn = locks.lock("busy") => turn.unwrap_err(),
            () = std::future::ready(()) => panic!("a task over the limit waits"),
        };
        assert_eq!(refused, too_many());
        assert!(locks.lock("another").await.is_ok());
        drop(held);
        for turn in waiting {
            assert_eq!(turn.await.unwrap(), Ok(()));
        }
        assert!(locks.lock("busy").await.is_ok());
    }
}
