//! The settings of a fleet.

use crate::files::database;
use gateway_domain::approval::SigningRule;
use gateway_domain::dsse::KeySet;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{Clock, NodeConfig, Peers};
use gateway_seal::at_rest::Kek;
use std::path::PathBuf;
use std::sync::Arc;

/// The settings that all nodes of the fleet share, and where their databases are.
#[derive(Clone)]
pub struct FleetConfig {
    /// Holds `node-<index>.db` for each participant; created if missing.
    pub folder: PathBuf,
    /// See [`NodeConfig::kek`]. All nodes share it: anyone who has this process has every node's key anyway.
    pub kek: Arc<Kek>,
    /// See [`NodeConfig::authorities`].
    pub authorities: KeySet,
    /// See [`NodeConfig::required_approvals`].
    pub required_approvals: u32,
    /// See [`NodeConfig::decision_ttl_max_ms`].
    pub decision_ttl_max_ms: u64,
    /// See [`NodeConfig::signed_approvals`].
    pub signed_approvals: SigningRule,
    /// See [`NodeConfig::keys_without_approvals`].
    pub keys_without_approvals: bool,
    /// See [`NodeConfig::clock`].
    pub clock: Clock,
}

impl FleetConfig {
    pub(crate) fn node(&self, participant: ParticipantIndex, peers: Arc<Peers>) -> NodeConfig {
        NodeConfig {
            participant,
            database: database(&self.folder, participant),
            peers,
            kek: Arc::clone(&self.kek),
            authorities: self.authorities.clone(),
            required_approvals: self.required_approvals,
            decision_ttl_max_ms: self.decision_ttl_max_ms,
            signed_approvals: self.signed_approvals.clone(),
            keys_without_approvals: self.keys_without_approvals,
            clock: self.clock.clone(),
        }
    }
}
