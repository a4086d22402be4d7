//! What the fleet has in memory of operations and nodes. Nothing of it is needed after a restart.

use gateway_domain::ids::OperationId;
use gateway_domain::receipt::{NodeReceipt, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::ShownReceipt;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Operations whose commitments are kept. Each is used a moment later; without them the attempt asks the nodes again.
const OPERATIONS_MAX: usize = 4096;

/// The commitments that nodes returned with their policy receipts, by operation and node: with them the first attempt at a signature
/// needs one round fewer.
#[derive(Default)]
pub(crate) struct Commitments(Mutex<BTreeMap<OperationId, BTreeMap<ParticipantIndex, Vec<u8>>>>);

impl Commitments {
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

/// The receipt with the highest position in its node's log, by node. The node is shown it before its next step: one
/// that was restored from an older copy of its database does not have it, and stops.
#[derive(Default)]
pub(crate) struct Newest(Mutex<BTreeMap<ParticipantIndex, ShownReceipt>>);

impl Newest {
    pub(crate) fn note(&self, statement: ReceiptStatement, receipt: &NodeReceipt) {
        let mut newest = self.0.lock();
        let known = newest.get(&receipt.participant);
        if known.is_none_or(|known| known.receipt.log_index < receipt.log_index) {
            let shown = ShownReceipt { statement, receipt: receipt.clone() };
            newest.insert(receipt.participant, shown);
        }
    }

    pub(crate) fn of(&self, participant: ParticipantIndex) -> Option<ShownReceipt> {
        self.0.lock().get(&participant).cloned()
    }
}

/// Participants that failed in an attempt. The next attempt prefers others, so that one faulty node does not use up all attempts; after a restart, one that is still faulty can fail one more attempt.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<BTreeSet<ParticipantIndex>>);

impl Suspects {
    pub(crate) fn add(&self, participants: impl IntoIterator<Item = ParticipantIndex>) {
        self.0.lock().extend(participants);
    }

    pub(crate) fn clear<'a>(&self, participants: impl IntoIterator<Item = &'a ParticipantIndex>) {
        let mut suspects = self.0.lock();
        for participant in participants {
            suspects.remove(participant);
        }
    }

    /// Chooses the first `n` of the candidates in their order, suspects last. Fewer if there are not that many.
    pub(crate) fn choose(
        &self,
        candidates: impl IntoIterator<Item = ParticipantIndex>,
        n: usize,
    ) -> BTreeSet<ParticipantIndex> {
        let suspects = self.0.lock();
        let (last, first): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| suspects.contains(candidate));
        first.into_iter().chain(last).take(n).collect()
    }
}
