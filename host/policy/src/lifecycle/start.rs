//! The start: the bundle is loaded before the store is opened, so that a first start with a broken bundle writes nothing.

use super::offers::{read_bundle, read_file};
use super::refusals::Refusals;
use super::{Cause, Lifecycle, Looks, Memory, Sources};
use crate::bundle::{Bundle, BundleError, TrustPolicy};
use crate::{EngineError, Evaluator, PolicyEngine, PolicyHost};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{ReadClock, StorePolicies};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each is what its name says")]
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

/// What the trust roots and the bundle's folder gave.
#[derive(Debug)]
pub struct Prepared {
    engine: PolicyEngine,
    sources: Sources,
    first: Result<Arc<Evaluator>, StartError>,
}

impl Sources {
    pub(super) fn trust(&self, bytes: &[u8]) -> Result<TrustPolicy, BundleError> {
        let trust = TrustPolicy::parse(bytes)?;
        if trust.trusts_development() && !self.allows_development {
            return Err(BundleError::TrustRoots(
                "the development signing key must not be trusted in production".to_owned(),
            ));
        }
        Ok(trust)
    }

    /// Reads, verifies, compiles and tests what the folder has. Writes nothing.
    ///
    /// # Errors
    /// [`StartError::Engine`]. A bundle that does not hold, and trust roots that cannot be read, are no error yet: with a
    /// store the gateway can answer reads, and judge once the files are right.
    pub fn prepare(self, now: EpochMs) -> Result<Prepared, StartError> {
        let engine = PolicyEngine::new().map_err(StartError::Engine)?;
        let trust = read_file(&self.trust_roots, "trust roots").content;
        let trust = trust.and_then(|bytes| self.trust(&bytes)).map_err(StartError::TrustRoots);
        let first = trust.and_then(|trust| {
            let files = read_bundle(&self.bundle).content;
            let bundle = files.and_then(|files| Bundle::verify(files, &trust, &self.pins, now));
            bundle.and_then(|bundle| Evaluator::load(&engine, &bundle)).map_err(StartError::Bundle)
        });
        Ok(Prepared { engine, sources: self, first: first.map(Arc::new) })
    }
}

impl Prepared {
    /// The same, for a deployment that has no store yet, and so nothing else to start with.
    ///
    /// # Errors
    /// [`StartError::TrustRoots`], [`StartError::Bundle`]: what does not hold.
    pub fn or_nothing(self) -> Result<Self, StartError> {
        match self.first {
            Ok(_) => Ok(self),
            Err(why) => Err(why),
        }
    }

    /// Activates what holds: the folder's bundle, what an activation record names, or the last one that was active.
    ///
    /// # Errors
    /// [`StartError::TrustRoots`] and [`StartError::Bundle`] when no bundle was ever active and they do not hold,
    /// [`StartError::Store`].
    pub async fn open(
        self,
        store: Arc<dyn StorePolicies>,
        clock: Arc<dyn ReadClock>,
    ) -> Result<Arc<Lifecycle>, StartError> {
        let Self { engine, sources, first } = self;
        let (prepared, broken) = match first {
            Ok(evaluator) => (Some(evaluator), None),
            Err(why) => (None, Some(why)),
        };
        let never_activated = store.activations(1).await.map_err(StartError::Store)?.is_empty();
        if let (true, Some(why)) = (never_activated, broken) {
            return Err(why);
        }
        let memory = Memory { trust: None, active: None, prepared, seen: Looks::default() };
        let lifecycle = Arc::new(Lifecycle {
            engine,
            host: Arc::new(PolicyHost::new()),
            store,
            clock,
            sources,
            memory: Mutex::new(memory),
            refusals: Refusals::default(),
        });
        lifecycle.reload(Cause::Watch).await;
        Ok(lifecycle)
    }
}
