//! Who the nodes of a deployment are: what whoever checks their receipts has to pin.

use crate::config::database;
use crate::fleet::existing;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{NodeError, read_identity};
use gateway_seal::at_rest::Kek;
use gateway_seal::node_key::NodeIdentity;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A node does not say who it is.
#[derive(Debug, thiserror::Error)]
#[error("participant {participant}")]
pub struct IdentityError {
    /// Which.
    pub participant: ParticipantIndex,
    /// Why.
    pub source: NodeError,
}

/// The identity of every node that has a database in this folder, read beside the process that serves with them: no node
/// is opened and nothing is begun. A participant that never took part in anything has no database, and so no identity.
///
/// # Errors
/// [`IdentityError`] of the first node whose database can not be read, or is sealed under another key.
pub async fn identities(
    folder: &Path,
    kek: &Arc<Kek>,
) -> Result<BTreeMap<ParticipantIndex, NodeIdentity>, IdentityError> {
    let mut identities = BTreeMap::new();
    for participant in existing(folder) {
        let read = read_identity(&database(folder, participant), participant, Arc::clone(kek)).await;
        let identity = read.map_err(|source| IdentityError { participant, source })?;
        identities.insert(participant, identity);
    }
    Ok(identities)
}
