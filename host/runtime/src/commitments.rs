//! Commitments that nodes returned with their policy receipts. With them the first attempt at a signature needs one round fewer.

use gateway_domain::ids::OperationId;
use gateway_domain::roster::ParticipantIndex;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Operations whose commitments are kept. Each is used a moment later; without them the attempt asks the nodes again.
const OPERATIONS_MAX: usize = 4096;

/// The commitments of each operation's first attempt, by node. In memory only.
#[derive(Default)]
pub(crate) struct Commitments(Mutex<BTreeMap<OperationId, BTreeMap<ParticipantIndex, Vec<u8>>>>);

impl Commitments {
    /// Keeps an operation's commitments.
    pub(crate) fn put(&self, id: OperationId, commitments: BTreeMap<ParticipantIndex, Vec<u8>>) {
        let mut all = self.0.lock();
        if all.len() >= OPERATIONS_MAX {
            all.clear();
        }
        all.insert(id, commitments);
    }

    /// Takes an operation's commitments: they are for one package.
    pub(crate) fn take(&self, id: OperationId) -> Option<BTreeMap<ParticipantIndex, Vec<u8>>> {
        self.0.lock().remove(&id)
    }
}
