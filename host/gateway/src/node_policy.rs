//! The policy trust of embedded nodes, and the bundles that the gateway offers to nodes.

use crate::settings::{Profile, Settings};
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_policy::{Pins, Trust, TrustFile};
use gateway_policy_host::Lifecycle;
use gateway_runtime::{BundleOffer, FindBundle};
use gateway_service::StartError;
use std::sync::Arc;

/// The nodes' trust, without roots until [`trust_file`] has read them.
#[must_use]
pub(crate) fn trust(settings: &Settings) -> Trust {
    Trust::new(settings.general.profile == Profile::Development)
}

/// The nodes' trust roots, read into `trust`.
///
/// # Errors
/// [`StartError`] for pins that are not hashes.
pub(crate) fn trust_file(settings: &Settings, trust: Trust) -> Result<TrustFile, StartError> {
    let pins = Pins::parse(&settings.policy.pins);
    let pins = pins.map_err(|error| StartError::new("policy pins", error))?;
    Ok(TrustFile::open(settings.policy.trust_roots.clone(), pins, trust))
}

/// The bundles that are or were active in the gateway.
pub(crate) struct StoredBundles(pub(crate) Arc<Lifecycle>);

#[async_trait]
impl FindBundle for StoredBundles {
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable> {
        let found = self.0.stored_bundle(bundle_hash).await?;
        Ok(found.map(|(files, activation)| BundleOffer { files, activation }))
    }
}
