//! How a bundle is activated, and distrusted.
//!
//! An *offer* is what the operator's files contain: trust roots, a bundle, an activation record, a candidate, documents. The steps are the
//! same at a start, after a change on disk and at SIGHUP: read, verify, compile, run the bundle's test vectors, record the
//! activation, swap. A refused offer leaves the active bundle in place, and is reported until an offer is accepted or withdrawn.
//!
//! The last activation in the store, the high-water mark, determines the active bundle. So the gateway loads that bundle after a
//! crash between record and swap, after a start without the folder, and after an activation by another replica.
//!
//! The current trust roots must accept the active bundle. While they do not, or cannot be read, every evaluation is a DENY; while
//! they cannot be read, no bundle is activated.

mod describe;
mod documents;
mod offers;
mod pipeline;
mod refusals;
mod start;

pub use offers::Sources;
pub use start::{Prepared, StartError};

use crate::PolicyHost;
use documents::Documents;
use gateway_domain::canonical;
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::FaultKind;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Activation, ActivationKind, ReadClock, StorePolicies};
use gateway_engine::{Dependency, Unavailable};
use gateway_policy::bundle::ActivationRecord;
use gateway_policy::limits::BUNDLES_TRUSTED_MAX;
use gateway_policy::{Bundle, BundleError, BundleFiles, Evaluator, PolicyEngine, TrustPolicy};
use offers::{Files, Offer, Offers, Seen};
use refusals::{Offered, Refusals, Refused};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Mutex;
use tokio::task;

/// Activates bundles, and keeps checking that the active one is trusted.
pub struct Lifecycle {
    engine: PolicyEngine,
    host: Arc<PolicyHost>,
    store: Arc<dyn StorePolicies>,
    clock: Arc<dyn ReadClock>,
    sources: Sources,
    /// Locked during a reload, so that one reload runs at a time.
    memory: Mutex<Memory>,
    refusals: Refusals,
    /// The verified activation records, the newest last, at most [`BUNDLES_TRUSTED_MAX`].
    records: parking_lot::Mutex<Vec<Vec<u8>>>,
    /// Whether activations may be added to the log.
    activates: AtomicBool,
}

/// The state between reloads.
struct Memory {
    /// `None` while the file cannot be read, or has no valid trust roots. It may have changed to revoke a key, so the roots
    /// before are not used.
    trust: Option<Arc<TrustPolicy>>,
    active: Option<ActiveBundle>,
    /// The bundle that was compiled at the start, before the store was opened, until it was considered.
    prepared: Option<Arc<Evaluator>>,
    documents: Documents,
    seen: SeenOffers,
}

/// A bundle with the activation that made it active.
#[derive(Clone)]
struct ActiveBundle {
    bundle: Arc<Bundle>,
    activation: Activation,
}

/// The offers that were considered last.
#[derive(Default)]
struct SeenOffers {
    trust_roots: Seen,
    activation: Seen,
    bundle: Seen,
    mark: Seen,
    candidate: Seen,
}

impl Memory {
    /// The current trust roots.
    fn trust(&self) -> Result<&Arc<TrustPolicy>, BundleError> {
        self.trust.as_ref().ok_or(BundleError::NoTrustRoots)
    }
}

impl std::fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lifecycle").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Lifecycle {
    /// The policy host with the active bundle.
    #[must_use]
    pub fn host(&self) -> Arc<PolicyHost> {
        Arc::clone(&self.host)
    }

    /// The engine that compiles bundles, for other parts of the process that evaluate them.
    #[must_use]
    pub const fn engine(&self) -> &PolicyEngine {
        &self.engine
    }

    /// A bundle that is or was active, and the newest activation record that names it, if this process has read one. Neither is
    /// verified again.
    pub async fn stored_bundle(
        &self,
        bundle_hash: Hex32,
    ) -> Result<Option<(BundleFiles, Option<Vec<u8>>)>, Unavailable> {
        let Some(stored) = self.store.bundle_load(bundle_hash).await? else { return Ok(None) };
        let files = BundleFiles::new(stored.files)
            .map_err(|error| Unavailable::new(Dependency::Policy, error_chain(&error)))?;
        let names = |bytes: &&Vec<u8>| {
            ActivationRecord::parse(bytes).is_ok_and(|record| record.bundle_hash == bundle_hash)
        };
        let records = self.records.lock();
        Ok(Some((files, records.iter().rev().find(names).cloned())))
    }

    /// Keeps a verified activation record for nodes that get the bundle later: its file may have changed by then.
    fn keep_record(&self, bytes: &[u8]) {
        let mut records = self.records.lock();
        records.retain(|kept| kept != bytes);
        if records.len() >= BUNDLES_TRUSTED_MAX {
            records.remove(0);
        }
        records.push(bytes.to_vec());
    }

    /// Whether a reload may add an activation to the log. While it may not, new bundles and records wait, and the bundle of the
    /// high-water mark stays active.
    pub fn permit_activations(&self, permits: bool) {
        self.activates.store(permits, Ordering::Relaxed);
    }

    /// Reads all offers, considers those that changed, and activates the bundle that passes every check.
    pub async fn reload_if_changed(&self) {
        self.read_offers(false).await;
    }

    /// As [`Lifecycle::reload_if_changed`], but considers all offers again: an operator requested it.
    pub async fn reload(&self) {
        self.read_offers(true).await;
    }

    async fn read_offers(&self, again: bool) {
        let mut memory = self.memory.lock().await;
        let sources = self.sources.clone();
        let Ok(offers) = task::spawn_blocking(move || sources.read()).await else {
            memory.seen.trust_roots.forget();
            memory.trust = None;
            self.refusals.refuse(Offered::TrustRoots, None, &BundleError::Panicked, self.clock.now());
            return self.check_active(&memory, self.clock.now());
        };
        self.consider(&mut memory, offers, again).await;
    }

    /// Considers the trust roots first, then the activation record, the bundle in the folder, the store's high-water mark, and
    /// the candidate. If the trust roots changed, considers offers again that have not.
    async fn consider(&self, memory: &mut Memory, offers: Offers, requested: bool) {
        let now = self.clock.now();
        let again = self.take_trust_roots(memory, offers.trust_roots, now) || requested;
        if again {
            self.check_active(memory, now);
        }
        self.take_documents(memory, offers.documents, now, again);
        if !self.activates.load(Ordering::Relaxed) {
            self.follow_mark(memory, offers.bundle.content.as_ref().ok(), now, again).await;
            return;
        }
        match offers.activation {
            Some(offer) => self.take_activation(memory, offer, &offers.bundle, now, again).await,
            None => {
                memory.seen.activation.forget();
                self.refusals.settle(Offered::Activation);
            }
        }
        self.take_bundle(memory, offers.bundle, now, again).await;
        self.follow_mark(memory, None, now, again).await;
        self.take_candidate(memory, offers.candidate, now, again).await;
        // Whatever was offered at the start has been considered.
        memory.prepared = None;
    }

    /// Updates the trust roots. Returns whether they changed.
    fn take_trust_roots(&self, memory: &mut Memory, offer: Offer<Vec<u8>>, now: EpochMs) -> bool {
        if !memory.seen.trust_roots.is_due(offer.fingerprint, now, false) {
            return false;
        }
        let trust = match offer.content.and_then(|bytes| self.sources.parse_trust(&bytes)) {
            Ok(trust) => {
                self.refusals.settle(Offered::TrustRoots);
                Some(Arc::new(trust))
            }
            Err(why) => {
                self.refusals.refuse(Offered::TrustRoots, None, &why, now);
                None
            }
        };
        let is_new = memory.trust != trust;
        memory.trust = trust;
        is_new
    }

    /// Takes the documents. While there are no trust roots, policies find none.
    fn take_documents(&self, memory: &mut Memory, offer: Option<Offer<Files>>, now: EpochMs, again: bool) {
        let Memory { trust, documents, .. } = memory;
        let (files, is_due) = match offer {
            Some(Offer { content, fingerprint }) => (content, documents.seen.is_due(fingerprint, now, again)),
            None => {
                documents.seen.forget();
                (Ok(Files::new()), true)
            }
        };
        if is_due {
            let roles = trust.as_ref().and_then(|trust| trust.document_roles().ok()).unwrap_or_default();
            documents.take(files, &roles, &self.host, &self.refusals, now);
        }
    }

    /// Checks whether the active bundle is still trusted. While it is not, every evaluation is a DENY.
    fn check_active(&self, memory: &Memory, now: EpochMs) {
        let Some(active) = &memory.active else { return };
        let why = match self.check_trusted(memory, active) {
            Ok(()) => {
                self.host.set_untrusted(None);
                return self.refusals.settle(Offered::Active);
            }
            Err(why) => why,
        };
        let fault = match memory.trust {
            Some(_) => FaultKind::UntrustedBundle,
            None => FaultKind::NoTrustRoots,
        };
        self.host.set_untrusted(Some(fault));
        self.refusals.refuse(Offered::Active, Some(active.bundle.hash()), &why, now);
    }

    /// Checks a bundle against the current trust roots and pins, and the signers of the activation record if one activated it.
    fn check_trusted(&self, memory: &Memory, active: &ActiveBundle) -> Result<(), BundleError> {
        let trust = memory.trust()?;
        active.bundle.check_trust(trust, &self.sources.pins)?;
        let Activation { kind, signers, sequence, .. } = &active.activation;
        match kind {
            // The signers of this activation are those of the bundle, whose signatures were verified above.
            ActivationKind::Activate => Ok(()),
            ActivationKind::Rollback => {
                let signers = signers.iter().cloned().collect();
                trust.check_signers(&signers, Vec::new()).map_err(|source| {
                    BundleError::ActivationUnconfirmed { sequence: *sequence, source: Box::new(source) }
                })
            }
        }
    }

    async fn take_activation(
        &self,
        memory: &mut Memory,
        offer: Offer<Vec<u8>>,
        folder: &Offer<BundleFiles>,
        now: EpochMs,
        again: bool,
    ) {
        if !memory.seen.activation.is_due(offer.fingerprint, now, again) {
            return;
        }
        let taken = match offer.content {
            Ok(bytes) => self.try_activation(memory, &bytes, folder.content.as_ref().ok(), now).await,
            Err(why) => Err(why.into()),
        };
        self.settle(&mut memory.seen.activation, Offered::Activation, None, taken, now);
    }

    async fn take_bundle(&self, memory: &mut Memory, offer: Offer<BundleFiles>, now: EpochMs, again: bool) {
        if !memory.seen.bundle.is_due(offer.fingerprint, now, again) {
            return;
        }
        let hash = offer.content.as_ref().ok().and_then(|files| files.bundle_hash().ok());
        let taken = match offer.content {
            Ok(files) => self.try_bundle(memory, files, now).await,
            Err(why) => Err(why.into()),
        };
        self.settle(&mut memory.seen.bundle, Offered::Bundle, hash, taken, now);
    }

    /// Loads the bundle of the high-water mark if it is not the active one, and verifies it with the current trust roots.
    async fn follow_mark(
        &self,
        memory: &mut Memory,
        folder: Option<&BundleFiles>,
        now: EpochMs,
        again: bool,
    ) {
        let mark = match self.mark().await {
            Ok(Some(mark)) => mark,
            Ok(None) => return,
            Err(_) => return memory.seen.mark.forget(),
        };
        let (sequence, hash) = (mark.sequence, mark.bundle_hash);
        let is_active = memory.active.as_ref().is_some_and(|active| {
            (active.activation.sequence, active.activation.bundle_hash) == (sequence, hash)
        });
        let fingerprint = canonical::digest_bytes("", format!("{sequence} {hash}").as_bytes());
        if is_active || !memory.seen.mark.is_due(fingerprint, now, again) {
            return;
        }
        let taken = self.try_mark(memory, mark, folder, now).await;
        self.settle(&mut memory.seen.mark, Offered::Active, Some(hash), taken, now);
    }

    async fn take_candidate(
        &self,
        memory: &mut Memory,
        offer: Option<Offer<BundleFiles>>,
        now: EpochMs,
        again: bool,
    ) {
        let Some(offer) = offer else {
            memory.seen.candidate.forget();
            self.host.shadow.clear();
            return self.refusals.settle(Offered::Candidate);
        };
        if !memory.seen.candidate.is_due(offer.fingerprint, now, again) {
            return;
        }
        let hash = offer.content.as_ref().ok().and_then(|files| files.bundle_hash().ok());
        let taken = match offer.content {
            Ok(files) => self.try_candidate(memory, files, now).await,
            Err(why) => Err(why.into()),
        };
        if taken.is_err() {
            self.host.shadow.clear();
        }
        self.settle(&mut memory.seen.candidate, Offered::Candidate, hash, taken, now);
    }

    /// Reports the refusal of an offer, or clears an earlier one.
    fn settle(
        &self,
        seen: &mut Seen,
        offered: Offered,
        bundle_hash: Option<Hex32>,
        taken: Result<(), Refused>,
        now: EpochMs,
    ) {
        let why = match taken {
            Ok(()) => return self.refusals.settle(offered),
            Err(why) => why,
        };
        match &why {
            Refused::Unavailable(_) => seen.forget(),
            Refused::Bundle(BundleError::NotYetValid { not_before_ms, .. }) => {
                seen.retry_at(EpochMs(*not_before_ms));
            }
            Refused::Bundle(_) => {}
        }
        self.refusals.refuse(offered, bundle_hash, &why, now);
    }
}
