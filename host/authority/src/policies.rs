//! The bundles with which the authority runs the policy itself. The gateway offers bundles, the authority believes signatures only.

use crate::error::Unverified;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::document::DocumentError;
use gateway_domain::policy::{Recorded, SignedDocument};
use gateway_domain::time::EpochMs;
use gateway_policy::{BundleError, BundleOffer, CompiledBundles, Trust, TrustedBundle, TrustedBundles};
use std::sync::Arc;

/// The policy bundles that the authority trusts, a few, in memory only: after a restart the gateway offers them again. Which of them
/// may still decide is in the [record](crate::Record).
#[derive(Debug)]
pub struct Policies(TrustedBundles);

impl Policies {
    /// No bundle yet. `compiled` are those that the process has compiled.
    #[must_use]
    pub fn new(trust: Trust, compiled: Arc<CompiledBundles>) -> Self {
        Self(TrustedBundles::new(trust, compiled))
    }

    /// Verifies a bundle, compiles it, runs its test vectors, and keeps it. Takes tens of milliseconds.
    pub fn offer(&self, offer: BundleOffer, now: EpochMs) -> Result<(), BundleError> {
        self.0.add(offer.files, offer.activation.as_deref(), now).map(drop)
    }

    /// The bundle, if it is trusted now.
    pub(crate) fn find(&self, hash: Hex32, now: EpochMs) -> Result<Arc<TrustedBundle>, Unverified> {
        let bundle = self.0.find(hash).ok_or(Unverified::BundleUnknown { bundle_hash: hash })?;
        self.0.check(&bundle, now)?;
        Ok(bundle)
    }

    /// The documents of an evaluation, if their signatures are trusted now.
    pub(crate) fn documents(&self, policy: &Recorded) -> Result<Vec<Arc<SignedDocument>>, DocumentError> {
        self.0.documents(&policy.documents)
    }

    pub(crate) fn is_pinned(&self, hash: Hex32) -> bool {
        self.0.is_pinned(hash)
    }
}
