//! The pinned identities of all nodes: messages are verified with them and sealed to them.

use crate::error::NodeError;
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::node_key::{Identities, NodeIdentity};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Identities that an operator pins, or the fleet that opens all nodes in its own process. They never come from a relay.
#[derive(Debug, Default)]
pub struct Peers(RwLock<BTreeMap<u16, NodeIdentity>>);

/// The participant is pinned with another identity.
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
    /// [`PeerConflict`]: the first identity of a participant stays.
    pub fn pin(&self, identity: &NodeIdentity) -> Result<(), PeerConflict> {
        let mut pinned = self.0.write().unwrap_or_else(PoisonError::into_inner);
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
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&participant.0).cloned()
    }

    /// All pinned identities. This node's own must be among them.
    pub(crate) fn identities(&self, me: &NodeIdentity) -> Result<Identities, NodeError> {
        let pinned = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if pinned.get(&me.index()) != Some(me) {
            return Err(NodeError::unavailable("the node is not pinned with the identity it has"));
        }
        Identities::new(pinned.values().cloned())
            .map_err(|_| NodeError::unavailable("two participants are pinned with one identity"))
    }
}
