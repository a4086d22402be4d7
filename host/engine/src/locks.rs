//! One thing at a time on one operation, or about one account, within this process. Between processes the store's
//! revision decides.

use crate::error::{Dependency, Unavailable};
use gateway_domain::ids::OperationId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

/// Callers at one name at once, the one whose turn it is among them: as many as a gateway has connections by default. One
/// who hung up keeps its place, so connections alone do not bound them.
const CALLERS_MAX: usize = 1024;

type Lock = tokio::sync::Mutex<()>;

fn crowded() -> Unavailable {
    Unavailable::new(Dependency::Runtime, "too many requests wait for the same operation or account")
}

/// A lock for each name that somebody works under.
pub struct Locks<K>(Mutex<BTreeMap<K, Weak<Lock>>>);

/// A lock for each operation somebody is working on.
pub type OperationLocks = Locks<OperationId>;

impl<K> Default for Locks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord> Locks<K> {
    /// Waits for its turn, first come first served.
    ///
    /// # Errors
    /// [`Unavailable`] at once, when too many wait already.
    pub async fn lock(&self, name: K) -> Result<OwnedMutexGuard<()>, Unavailable> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Forget the names nobody works under before the map doubles with them.
            if locks.len() >= 1024 && locks.len().is_power_of_two() {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            match locks.get(&name).and_then(Weak::upgrade) {
                // One reference each; made only here, under the map's lock.
                Some(lock) if Arc::strong_count(&lock) > CALLERS_MAX => return Err(crowded()),
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(Lock::default());
                    locks.insert(name, Arc::downgrade(&lock));
                    lock
                }
            }
        };
        Ok(lock.lock_owned().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More names than are ever kept for nothing.
    const N_NAMES: u32 = 5_000;

    #[tokio::test]
    async fn a_name_that_is_held_is_never_forgotten_and_others_are() {
        let locks = Locks::default();
        let held = locks.lock(0).await.unwrap();
        for name in 1..N_NAMES {
            drop(locks.lock(name).await.unwrap());
        }
        assert!(locks.0.lock().unwrap().len() <= 1024, "names nobody works under pile up");
        tokio::select! {
            biased;
            _ = locks.lock(0) => panic!("two have their turn"),
            () = std::future::ready(()) => {}
        }
        drop(held);
        drop(locks.lock(0).await.unwrap());
    }

    #[tokio::test]
    async fn one_caller_too_many_is_turned_away_at_once_and_others_keep_their_place() {
        let locks = Arc::new(Locks::default());
        let held = locks.lock("crowded").await.unwrap();
        let wait = || {
            let locks = Arc::clone(&locks);
            tokio::spawn(async move { locks.lock("crowded").await.map(drop) })
        };
        let waiting: Vec<_> = (1..CALLERS_MAX).map(|_| wait()).collect();
        // Every task has had its first turn long before.
        for _ in 0..CALLERS_MAX {
            tokio::task::yield_now().await;
        }
        let refused = tokio::select! {
            biased;
            turn = locks.lock("crowded") => turn.unwrap_err(),
            () = std::future::ready(()) => panic!("one more waits"),
        };
        assert_eq!(refused, crowded());
        assert!(locks.lock("another").await.is_ok());
        drop(held);
        for turn in waiting {
            assert_eq!(turn.await.unwrap(), Ok(()));
        }
        assert!(locks.lock("crowded").await.is_ok());
    }
}
