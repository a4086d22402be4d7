//! Who a node is, read from its database beside the process that serves with it.

use crate::error::NodeError;
use crate::node::{APPLICATION, MIGRATIONS};
use crate::sealing::{Sealing, kept_identity};
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::at_rest::Kek;
use gateway_seal::node_key::NodeIdentity;
use gateway_sqlite::{Options, Reader};
use std::path::Path;
use std::sync::Arc;

/// The identity of the node whose database this is: what its receipts are checked under. Nothing is opened to be written
/// and nothing begun, so that it may be asked while the node serves.
///
/// # Errors
/// [`NodeError::Unavailable`] when there is no such database, or it is sealed under another key
/// ([`NodeError::is_sealed_otherwise`]).
pub async fn read_identity(
    database: &Path,
    participant: ParticipantIndex,
    kek: Arc<Kek>,
) -> Result<NodeIdentity, NodeError> {
    let reader = Reader::open(Options::at_path(database, APPLICATION, MIGRATIONS)).await?;
    let identity = kept_identity(reader.pool(), &Sealing::new(kek, participant)).await;
    reader.close().await;
    identity
}
