//! One thing at a time on one operation, or about one account, within this process. Between processes the store's
//! revision decides.

use gateway_domain::ids::OperationId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

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
    pub async fn lock(&self, name: K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Forget the names nobody works under before the map doubles with them.
            if locks.len() >= 1024 && locks.len().is_power_of_two() {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            match locks.get(&name).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(Lock::default());
                    locks.insert(name, Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
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
        let held = locks.lock(0).await;
        for name in 1..N_NAMES {
            drop(locks.lock(name).await);
        }
        assert!(locks.0.lock().unwrap().len() <= 1024, "names nobody works under pile up");
        tokio::select! {
            biased;
            _ = locks.lock(0) => panic!("two have their turn"),
            () = std::future::ready(()) => {}
        }
        drop(held);
        drop(locks.lock(0).await);
    }
}
