//! One thing at a time on one operation within this process. Between processes the store's revision decides.

use gateway_domain::ids::OperationId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

/// A lock for each operation somebody is working on.
#[derive(Default)]
pub struct OperationLocks(Mutex<BTreeMap<OperationId, Weak<Lock>>>);

impl OperationLocks {
    /// Waits for its turn, first come first served.
    pub async fn lock(&self, id: OperationId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Forget the operations nobody works on before the map doubles with them.
            if locks.len() >= 1024 && locks.len().is_power_of_two() {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            match locks.get(&id).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(Lock::default());
                    locks.insert(id, Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
    }
}
