//! The fleet: its nodes, where it finds policy bundles, and what it has in memory.

use crate::memory::{Commitments, Newest, Suspects};
use crate::node::Nodes;
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Event, replay, signed_receipts};
use gateway_engine::Unavailable;
use gateway_node::{BundleOffer, Generations};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Finds the bundles that decisions name. Nodes verify them under their own trust roots.
#[async_trait]
pub trait FindBundle: Send + Sync {
    /// The bundle with this hash, with the signed activation record that names it, if there is one.
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable>;
}

/// The runtime nodes that the gateway drives.
pub struct Fleet<N> {
    nodes: N,
    pub(crate) bundles: Arc<dyn FindBundle>,
    pub(crate) suspects: Suspects,
    pub(crate) newest: Newest,
    pub(crate) generations: Generations,
    pub(crate) commitments: Commitments,
}

impl<N: Nodes> Fleet<N> {
    /// A fleet of these nodes, which get the policy bundles that they need from `bundles`.
    #[must_use]
    pub fn of(nodes: N, bundles: Arc<dyn FindBundle>) -> Self {
        let (suspects, generations) = (Suspects::default(), Generations::default());
        let (newest, commitments) = (Newest::default(), Commitments::default());
        Self { nodes, bundles, suspects, newest, generations, commitments }
    }

    /// The same nodes, without what the fleet has in memory of operations: as after a restart of the gateway alone.
    #[must_use]
    pub fn forgetful(self) -> Self {
        Self::of(self.nodes, self.bundles)
    }

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
}

impl<N> Deref for Fleet<N> {
    type Target = N;

    fn deref(&self) -> &N {
        &self.nodes
    }
}

impl<N> fmt::Debug for Fleet<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}
