//! Nodes in the gateway's process, each opened when it is first needed.

use crate::files::{FleetConfig, participants_with_database};
use crate::fleet::{FindBundle, Fleet};
use crate::node::Nodes;
use async_trait::async_trait;
use gateway_domain::approval::SigningRule;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{Node, NodeError, Peers, Trust};
use gateway_seal::node_key::NodeIdentity;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Locked while the node is being opened, so that it is opened once.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Node>>>>;

/// A fleet of nodes in the gateway's own process.
pub type EmbeddedFleet = Fleet<EmbeddedNodes>;

impl EmbeddedFleet {
    /// Opens no node: each is opened when it is first needed. Nodes get the policy bundles that they need from `bundles`.
    #[must_use]
    pub fn new(config: FleetConfig, bundles: Arc<dyn FindBundle>) -> Self {
        Self::of(EmbeddedNodes { config, nodes: Mutex::default(), peers: Arc::default() }, bundles)
    }
}

/// Runtime nodes in the gateway's own process, one database each.
///
/// For development and small deployments: each node verifies every call, but an attacker who controls the process can read the
/// memory of all nodes, and so their shares.
pub struct EmbeddedNodes {
    config: FleetConfig,
    nodes: Mutex<BTreeMap<ParticipantIndex, Slot>>,
    /// The pinned identities. Opening a node pins its identity, until the process ends.
    peers: Arc<Peers>,
}

impl EmbeddedNodes {
    /// A participant's node. If it is not open, opens it and checks its shares; if that fails, the next call tries again.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when its database cannot be opened, or its identity is not the pinned one.
    pub async fn node(&self, participant: ParticipantIndex) -> Result<Arc<Node>, NodeError> {
        let slot = Arc::clone(self.nodes.lock().entry(participant).or_default());
        let mut open = slot.lock().await;
        if let Some(node) = open.as_ref() {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(Node::open(self.config.node(participant, Arc::clone(&self.peers))).await?);
        self.peers.pin(node.identity()).map_err(NodeError::from)?;
        // A damaged node is still returned.
        node.start_checks().await;
        *open = Some(Arc::clone(&node));
        Ok(node)
    }

    /// Opens every node that has a database. Other errors than those below are logged, and the node is opened when it is next
    /// needed.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when a node's store is sealed under another key ([`NodeError::is_wrong_kek`]), or other users
    /// can access its files ([`NodeError::is_exposed`]).
    pub async fn open_existing(&self) -> Result<(), NodeError> {
        for participant in participants_with_database(&self.config.folder) {
            match self.node(participant).await {
                Err(error) if error.is_wrong_kek() || error.is_exposed() => return Err(error),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(%participant, error, "a node cannot be opened");
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Whether approvals must be signed, and by which registry's keys; the same for all nodes.
    #[must_use]
    pub const fn signed_approvals(&self) -> &SigningRule {
        &self.config.nodes.signed_approvals
    }

    /// The trust roots and pins by which the nodes trust policy bundles.
    #[must_use]
    pub const fn policy_trust(&self) -> &Trust {
        &self.config.nodes.policy_trust
    }

    /// The number of committed writes, and of their transactions, over the open nodes. Leaves out a node that is being opened.
    #[must_use]
    pub fn counters(&self) -> (u64, u64) {
        let nodes: Vec<_> =
            self.nodes.lock().values().filter_map(|slot| slot.try_lock().ok()?.clone()).collect();
        let counters = nodes.iter().map(|node| node.counters());
        counters.fold((0, 0), |(jobs, commits), one| (jobs + one.jobs, commits + one.commits))
    }

    /// Finishes pending writes and closes the databases. A later call opens a node again.
    pub async fn close(&self) {
        let nodes = std::mem::take(&mut *self.nodes.lock());
        for slot in nodes.into_values() {
            if let Some(node) = slot.lock().await.as_ref() {
                node.close().await;
            }
        }
    }
}

#[async_trait]
impl Nodes for EmbeddedNodes {
    type Node = Node;

    const WAITS_FOR_ALL: bool = true;

    async fn node(&self, participant: ParticipantIndex) -> Result<Arc<Node>, NodeError> {
        self.node(participant).await
    }

    fn pinned(&self, participant: ParticipantIndex) -> Option<NodeIdentity> {
        self.peers.pinned(participant)
    }

    fn known(&self) -> BTreeSet<ParticipantIndex> {
        participants_with_database(&self.config.folder)
    }

    async fn check_next_rows(&self) {
        for participant in self.known() {
            if let Ok(node) = self.node(participant).await {
                node.check_next_rows().await;
            }
        }
    }
}
