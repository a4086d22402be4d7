//! The newest receipt of each node, which the node is shown before its next step. A node that was restored from an older copy of
//! its database does not have it, and stops.

use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::operation::{Event, replay, signed_receipts};
use gateway_domain::receipt::{NodeReceipt, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{NodeError, ShownReceipt};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The receipt with the highest position in its node's log, by node. In memory only.
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

    fn of(&self, participant: ParticipantIndex) -> Option<ShownReceipt> {
        self.0.lock().get(&participant).cloned()
    }
}

impl<N: Nodes> Fleet<N> {
    /// Notes the receipts in an operation's events, for the nodes' next calls. Call it after a start, with the newest operations:
    /// a node may have been restored while the gateway was stopped.
    pub fn note_receipts(&self, events: &[Event]) {
        for (n_before, event) in events.iter().enumerate() {
            let Some(before) = events.get(..n_before).and_then(replay) else { continue };
            for (kind, receipt) in signed_receipts(&before, event) {
                let chain = before.receipt_chain(receipt.participant);
                if let Some(Ok(statement)) = chain.map(|chain| chain.statement(&kind)) {
                    self.newest.note(statement, receipt);
                }
            }
        }
    }

    /// Shows the node its newest receipt.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the node has stopped.
    pub(crate) async fn show_newest(
        &self,
        participant: ParticipantIndex,
        node: &N::Node,
    ) -> Result<(), NodeError> {
        match self.newest.of(participant) {
            Some(newest) => node.show_newest(&newest).await,
            None => Ok(()),
        }
    }
}
