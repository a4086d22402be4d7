//! The pinned identities of all nodes: messages are verified with them and sealed to them.

use crate::error::NodeError;
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::node_key::{Identities, NodeIdentity};
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// The pinned identities. An operator pins them, or the fleet if it opens all nodes in one process; they must not come from a
/// relay.
#[derive(Debug, Default)]
pub struct Peers(RwLock<BTreeMap<u16, NodeIdentity>>);

/// Another identity is already pinned for the participant.
#[derive(Debug, thiserror::Error)]
#[error("participant {index} is pinned with another identity")]
pub struct PeerConflict {
    /// The participant's index.
    pub index: u16,
}

impl Peers {
    /// Pins a node's identity. Pinning the same identity again succeeds.
    ///
    /// # Errors
    /// [`PeerConflict`] when another identity is pinned for the participant; it stays.
    pub fn pin(&self, identity: &NodeIdentity) -> Result<(), PeerConflict> {
        let mut pinned = self.0.write();
        let index = identity.index();
        if pinned.get(&index).is_some_and(|known| known != identity) {
            return Err(PeerConflict { index });
        }
        pinned.insert(index, identity.clone());
        Ok(())
    }

    /// The identity that is pinned for this participant.
    #[must_use]
    pub fn pinned(&self, participant: ParticipantIndex) -> Option<NodeIdentity> {
        self.0.read().get(&participant.0).cloned()
    }

    /// All pinned identities.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when `me`, this node's own, is not among them, or two participants have the same key.
    pub(crate) fn identities(&self, me: &NodeIdentity) -> Result<Identities, NodeError> {
        let pinned = self.0.read();
        if pinned.get(&me.index()) != Some(me) {
            return Err(NodeError::unavailable("the identity pinned for the node is not the one it has"));
        }
        Identities::new(pinned.values().cloned())
            .map_err(|_| NodeError::unavailable("two participants are pinned with the same key"))
    }
}
