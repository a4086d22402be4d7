//! Logs, counts and keeps the refusals of offers.

use crate::counters;
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::RefusedOffer;
use gateway_policy::BundleError;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Why an offer is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

gateway_domain::words! {
    /// The kinds of offers. `Active` is the bundle that is or should be active by the high-water mark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Offered {
        TrustRoots = "trust_roots",
        Active = "active",
        Activation = "activation",
        Bundle = "bundle",
        Candidate = "candidate",
        Documents = "documents",
    }
}

/// The current refusal of each kind of offer, and the last one of any kind.
#[derive(Debug)]
pub(super) struct Refusals(Mutex<Kept>);

impl Default for Refusals {
    /// None yet. Counts from zero, so that the first refusal is an increase of the metric.
    fn default() -> Self {
        Offered::ALL.into_iter().for_each(|offered| counters::start_refusals(offered.as_str()));
        Self(Mutex::default())
    }
}

#[derive(Debug, Default)]
struct Kept {
    standing: BTreeMap<Offered, RefusedOffer>,
    last: Option<RefusedOffer>,
}

impl Refusals {
    /// Clears the refusal: the offer was accepted or withdrawn.
    pub(super) fn settle(&self, offered: Offered) {
        self.0.lock().standing.remove(&offered);
    }

    /// Logs, counts and keeps a refusal.
    pub(super) fn refuse(
        &self,
        offered: Offered,
        bundle_hash: Option<Hex32>,
        why: &(dyn std::error::Error + 'static),
        at_ms: EpochMs,
    ) {
        let offer = offered.as_str();
        let why = error_chain(why);
        tracing::error!(
            offer,
            bundle_hash = bundle_hash.map(tracing::field::display),
            why,
            "policy offer refused"
        );
        counters::count_refusal(offer);
        let refused = RefusedOffer { at_ms, offer, bundle_hash, why };
        let mut kept = self.0.lock();
        kept.standing.insert(offered, refused.clone());
        kept.last = Some(refused);
    }

    pub(super) fn standing(&self) -> Vec<RefusedOffer> {
        self.0.lock().standing.values().cloned().collect()
    }

    pub(super) fn last(&self) -> Option<RefusedOffer> {
        self.0.lock().last.clone()
    }
}
