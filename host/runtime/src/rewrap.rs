//! The nodes' databases, put under another key.

use crate::config::{FleetConfig, database};
use crate::fleet::existing;
use crate::identities::IdentityError;
use gateway_engine::failpoint::failpoint;
use gateway_node::{Node, NodeError, Peers, read_identity};
use gateway_seal::at_rest::Kek;
use std::sync::Arc;

/// Puts every database in the folder under another key, each in one transaction; how many there are. One that is under it
/// already stays as it is: what was interrupted is taken up by doing it again.
///
/// # Errors
/// [`IdentityError`] of the first node whose database is another process's, or sealed under neither key.
pub async fn rewrap(config: &FleetConfig, new: &Arc<Kek>) -> Result<usize, IdentityError> {
    let participants = existing(&config.folder);
    for participant in &participants {
        let failed = |source: NodeError| IdentityError { participant: *participant, source };
        let at = database(&config.folder, *participant);
        match Node::open(config.node(*participant, Arc::new(Peers::default()))).await {
            Ok(node) => node.rewrap(Arc::clone(new)).await.map_err(failed)?,
            Err(error) if error.is_sealed_otherwise() => {
                // Under the new key, or under one that nobody named.
                let under_new = read_identity(&at, *participant, Arc::clone(new)).await;
                under_new.map_err(|_| failed(error))?;
            }
            Err(error) => return Err(failed(error)),
        }
        failpoint("after-rewrap");
    }
    Ok(participants.len())
}
