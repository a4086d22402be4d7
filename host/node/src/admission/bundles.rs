//! The policy bundles that a node trusts: a caller offers them, the node verifies them under its own trust roots and pins, and keeps
//! a few in its database.

use crate::error::{NodeError, policy_refused};
use crate::node::Node;
use crate::store::bundles::{StoreBundle, load_files};
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use gateway_policy::{BundleError, BundleFiles, BundleOffer, TrustedBundle};
use gateway_sqlite::Connection;
use std::sync::Arc;

impl Node {
    /// Verifies a bundle, compiles it, runs its test vectors, and keeps it.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::PolicyRefused`](crate::Code::PolicyRefused) when this node does not trust the bundle;
    /// [`NodeError::Unavailable`] when its trust roots cannot be read, or its store failed.
    pub async fn offer_bundle(&self, offer: BundleOffer) -> Result<(), NodeError> {
        let BundleOffer { files, activation } = offer;
        let kept = files.clone();
        let trusted = self.add_bundle(files, activation).await?;
        let files = kept.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
        let (hash, sequence) = (trusted.bundle().hash(), trusted.sequence());
        self.write(StoreBundle { hash, sequence, files, now: self.now() }).await
    }

    /// The bundle, from memory or from the database. `conn` is used only if it is not in memory.
    ///
    /// # Errors
    /// [`NodeError::BundleUnknown`], and those of [`Self::offer_bundle`].
    pub(crate) async fn bundle(
        &self,
        conn: &mut Connection,
        hash: Hex32,
    ) -> Result<Arc<TrustedBundle>, NodeError> {
        if let Some(found) = self.bundles.find(hash) {
            return Ok(found);
        }
        let files = load_files(conn, hash).await?;
        if files.is_empty() {
            return Err(NodeError::BundleUnknown { bundle_hash: hash });
        }
        let files = BundleFiles::new(files).map_err(NodeError::damaged)?;
        let trusted = self.add_bundle(files, None).await?;
        if trusted.bundle().hash() == hash {
            Ok(trusted)
        } else {
            Err(NodeError::unavailable("the node's store is damaged: a bundle is stored under another hash"))
        }
    }

    async fn add_bundle(
        &self,
        files: BundleFiles,
        activation: Option<Vec<u8>>,
    ) -> Result<Arc<TrustedBundle>, NodeError> {
        let permit = Arc::clone(&self.heavy).acquire_owned().await.map_err(|_| CLOSED)?;
        let (bundles, now) = (Arc::clone(&self.bundles), self.now());
        let adding = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            bundles.add(files, activation.as_deref(), now)
        });
        adding.await.map_err(|_| CLOSED)?.map_err(|error| bundle_error(&error))
    }
}

/// Does not occur: the semaphore is never closed, and verification does not panic.
pub(crate) const CLOSED: NodeError = NodeError::unavailable("the policy bundle could not be checked");

/// A bundle that is not trusted is refused. If the trust roots cannot be read now, the call can be repeated.
pub(crate) fn bundle_error(error: &BundleError) -> NodeError {
    match error {
        BundleError::NoTrustRoots => NodeError::unavailable("the node's policy trust roots cannot be read"),
        BundleError::Engine(_) => NodeError::unavailable("the node's policy engine cannot start"),
        untrusted => {
            policy_refused(format!("the policy bundle is not trusted: {}", error_chain(untrusted))).into()
        }
    }
}
