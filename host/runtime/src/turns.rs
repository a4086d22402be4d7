//! Effects of one operation take turns: the second of two equal ones finds the first one's result.

use gateway_domain::ids::OperationId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

#[derive(Default)]
pub(crate) struct Turns(Mutex<BTreeMap<OperationId, Arc<Turn<()>>>>);

impl Turns {
    /// Waits until no other effect of the operation is being performed.
    pub(crate) async fn take(&self, id: OperationId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for any more.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(id).or_default())
        };
        turn.lock_owned().await
    }
}
