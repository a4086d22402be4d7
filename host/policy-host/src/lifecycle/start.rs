//! The start: loads the bundle before the store is opened, so that a first start with an invalid bundle writes nothing.

use super::documents::Documents;
use super::offers::{read_bundle, read_file};
use super::refusals::Refusals;
use super::{Lifecycle, Memory, SeenOffers, Sources};
use crate::PolicyHost;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{ReadClock, StorePolicies};
use gateway_policy::{Bundle, BundleError, EngineError, Evaluator, PolicyEngine, TrustPolicy};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::Mutex;

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant has the error of the part it is named for")]
pub enum StartError {
    #[error(transparent)]
    TrustRoots(BundleError),
    #[error(transparent)]
    Bundle(BundleError),
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Store(Unavailable),
}

/// The engine, and the bundle that was loaded from the folder, or why none was.
#[derive(Debug)]
pub struct Prepared {
    engine: PolicyEngine,
    sources: Sources,
    first: Result<Arc<Evaluator>, StartError>,
}

impl Sources {
    pub(super) fn parse_trust(&self, bytes: &[u8]) -> Result<TrustPolicy, BundleError> {
        let trust = TrustPolicy::parse(bytes)?;
        trust.check_development(self.allows_development)?;
        Ok(trust)
    }

    /// Reads, verifies, compiles and tests the bundle in the folder. Writes nothing.
    ///
    /// # Errors
    /// [`StartError::Engine`]. An invalid bundle, or trust roots that cannot be read, are not an error yet: a gateway with a
    /// store can start and answer reads until the files are corrected.
    pub fn prepare(self, now: EpochMs) -> Result<Prepared, StartError> {
        let engine = PolicyEngine::new().map_err(StartError::Engine)?;
        let trust = read_file(&self.trust_roots, "trust roots").content;
        let trust = trust.and_then(|bytes| self.parse_trust(&bytes)).map_err(StartError::TrustRoots);
        let first = trust.and_then(|trust| {
            let files = read_bundle(&self.bundle).content;
            let bundle = files.and_then(|files| Bundle::verify(files, &trust, &self.pins, now));
            bundle.and_then(|bundle| Evaluator::load(&engine, &bundle)).map_err(StartError::Bundle)
        });
        Ok(Prepared { engine, sources: self, first: first.map(Arc::new) })
    }
}

impl Prepared {
    /// The same, for a first start without a store, which needs a valid bundle.
    ///
    /// # Errors
    /// [`StartError::TrustRoots`] or [`StartError::Bundle`] if no bundle was loaded.
    pub fn require_bundle(self) -> Result<Self, StartError> {
        match self.first {
            Ok(_) => Ok(self),
            Err(why) => Err(why),
        }
    }

    /// Whether the bundle in the folder can be evaluated at this time; false if none was loaded.
    #[must_use]
    pub fn is_valid_at(&self, at: EpochMs) -> bool {
        self.first.as_ref().is_ok_and(|bundle| bundle.is_valid_at(Some(at)))
    }

    /// Starts the lifecycle with a first reload, which activates the bundle in the folder, the one that an activation record
    /// names, or the one that was active last. Unless it `activates`, and if any bundle was ever active, it activates only the last one:
    /// [`Lifecycle::permit_activations`] ends that.
    ///
    /// # Errors
    /// [`StartError::TrustRoots`] or [`StartError::Bundle`] if none was loaded and no bundle was ever active;
    /// [`StartError::Store`].
    pub async fn open(
        self,
        store: Arc<dyn StorePolicies>,
        clock: Arc<dyn ReadClock>,
        activates: bool,
    ) -> Result<Arc<Lifecycle>, StartError> {
        let Self { engine, sources, first } = self;
        let (prepared, error) = match first {
            Ok(evaluator) => (Some(evaluator), None),
            Err(why) => (None, Some(why)),
        };
        let never_activated = store.activations(1).await.map_err(StartError::Store)?.is_empty();
        if let (true, Some(why)) = (never_activated, error) {
            return Err(why);
        }
        let memory = Memory {
            trust: None,
            active: None,
            prepared,
            documents: Documents::default(),
            seen: SeenOffers::default(),
        };
        let lifecycle = Arc::new(Lifecycle {
            engine,
            host: Arc::new(PolicyHost::new()),
            store,
            clock,
            sources,
            memory: Mutex::new(memory),
            refusals: Refusals::default(),
            records: parking_lot::Mutex::default(),
            activates: AtomicBool::new(activates || never_activated),
        });
        lifecycle.reload_if_changed().await;
        Ok(lifecycle)
    }
}
