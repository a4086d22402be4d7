//! Offers policy bundles to nodes that do not have them.

use crate::fan_out::Answer;
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_node::{BundleOffer, Code, NodeError};
use std::borrow::Cow;

/// Finds the bundles that decisions name. Nodes verify them under their own trust roots.
#[async_trait]
pub trait FindBundle: Send + Sync {
    /// The bundle with this hash, with the signed activation record that names it, if there is one.
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable>;
}

impl<N: Nodes> Fleet<N> {
    /// Calls the node. If it answers that it does not have the bundle, or that the bundle was superseded, offers it and calls once
    /// more.
    pub(crate) async fn call_with_bundle<'f, T>(
        &self,
        node: &N::Node,
        bundle_hash: Hex32,
        call: impl Fn() -> Answer<'f, T>,
    ) -> Result<T, NodeError> {
        match call().await {
            Err(error) if needs_bundle(&error) => {
                let found = self.bundles.find(bundle_hash).await.map_err(|why| {
                    tracing::warn!(%bundle_hash, why = why.detail, "a policy bundle cannot be read for a node");
                    let detail = Cow::Borrowed("the policy bundle cannot be read");
                    NodeError::Unavailable { detail, source: None }
                });
                let Some(offer) = found? else { return Err(error) };
                node.offer_bundle(offer).await?;
                call().await
            }
            answer => answer,
        }
    }
}

fn needs_bundle(error: &NodeError) -> bool {
    match error {
        NodeError::BundleUnknown { .. } => true,
        NodeError::Rejected(rejection) => rejection.code == Code::BundleSuperseded,
        NodeError::Lost { .. } | NodeError::Unavailable { .. } => false,
    }
}
