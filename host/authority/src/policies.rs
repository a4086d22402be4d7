//! The authority's own run of the policy. The gateway offers bundles, the authority believes signatures only.

use crate::verify::Unverified;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::limits::BUNDLES_TRUSTED_MAX;
use gateway_policy::{
    BundleError, BundleOffer, CompiledBundles, Ranked, Standing, Superseded, Trust, TrustedBundle,
    TrustedBundles,
};
use std::sync::{Arc, Mutex, PoisonError};

/// The policy bundles that the authority trusts, at most [`BUNDLES_TRUSTED_MAX`], and the high-water mark. In memory only: after a
/// restart the gateway offers bundles again, and the first one that allows an operation sets the mark. Pins, and the marks that nodes
/// store, also hold across a restart.
#[derive(Debug)]
pub struct Policies {
    bundles: TrustedBundles,
    /// Those under which a decision was made; those of the highest sequences, at most [`BUNDLES_TRUSTED_MAX`].
    active: Mutex<Vec<Ranked>>,
}

impl Policies {
    /// No bundle yet. `compiled` are those that the process has compiled.
    #[must_use]
    pub fn new(trust: Trust, compiled: Arc<CompiledBundles>) -> Self {
        Self { bundles: TrustedBundles::new(trust, compiled), active: Mutex::default() }
    }

    /// Verifies a bundle, compiles it, runs its test vectors, and keeps it. Takes tens of milliseconds.
    ///
    /// # Errors
    /// [`BundleError`] of the first check that fails.
    pub fn offer(&self, offer: BundleOffer, now: EpochMs) -> Result<(), BundleError> {
        self.bundles.add(offer.files, offer.activation.as_deref(), now).map(drop)
    }

    /// The bundle, if it is trusted now.
    pub(crate) fn find(&self, hash: Hex32, now: EpochMs) -> Result<Arc<TrustedBundle>, Unverified> {
        let bundle = self.bundles.find(hash).ok_or(Unverified::BundleUnknown { bundle_hash: hash })?;
        self.bundles.check(&bundle, now)?;
        Ok(bundle)
    }

    /// Checks that the bundle may admit an operation, and raises the mark to it.
    pub(crate) fn raise(&self, bundle: &TrustedBundle, now: EpochMs) -> Result<(), Superseded> {
        let (hash, sequence) = (bundle.bundle().hash(), bundle.sequence());
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        // With a new activation record, the bundle is active again from its next decision on.
        active.retain(|known| known.hash != hash || known.sequence >= sequence);
        let known = active.iter().find(|known| known.hash == hash).copied();
        let own = known.unwrap_or(Ranked { hash, sequence, active_at: None });
        let mark = active.iter().max_by_key(|known| known.sequence).copied();
        match own.check(mark, self.bundles.is_pinned(hash), now)? {
            Standing::Stays => {}
            Standing::Rises => {
                if active.len() >= BUNDLES_TRUSTED_MAX {
                    active.remove(0);
                }
                // Each is higher than the ones before it.
                active.push(Ranked { active_at: Some(now), ..own });
            }
        }
        Ok(())
    }
}
