//! Loads the bundles that evaluate past decisions: the one that decided, by its hash, or a candidate.

use super::arguments::{BundleFault, RecordsError, Trust};
use crate::bundle::{self, source, trial};
use gateway_domain::ids::Hex32;
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use gateway_store::Decisions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Loads a candidate and verifies its signatures.
pub(super) fn load_verified(
    engine: &PolicyEngine,
    trust: &Trust<'_>,
    folder: &Path,
) -> Result<Evaluator, BundleFault> {
    let path = trust.roots.to_owned();
    let roots = std::fs::read(&path).map_err(|source| BundleFault::TrustRoots { path, source })?;
    let load = || -> Result<Evaluator, bundle::Error> {
        let roots = TrustPolicy::parse(&roots)?;
        let bundle = Bundle::verify(source::read(folder)?, &roots, &Pins::default(), trust.now)?;
        Ok(Evaluator::load(engine, &bundle)?)
    };
    load().map_err(|source| BundleFault::Unusable { path: folder.to_owned(), source })
}

/// Loads a bundle without checking its signatures or its vectors.
pub(crate) fn load_unverified(engine: &PolicyEngine, folder: &Path) -> Result<Evaluator, BundleFault> {
    let trial = source::read(folder).and_then(|files| trial::load(engine, &files));
    let trial = trial.map_err(|source| BundleFault::Unusable { path: folder.to_owned(), source })?;
    Ok(trial.evaluator)
}

/// The bundles that made the recorded decisions, each loaded once. Signatures are not checked: the record has the bundle's hash,
/// which covers every byte.
pub(super) struct DecidingBundles<'a> {
    engine: PolicyEngine,
    decisions: &'a Decisions,
    /// The folder to load first; `None` once it was loaded.
    folder: Option<PathBuf>,
    /// Whether the operator named the folder. The store is then not searched.
    is_given: bool,
    loaded: BTreeMap<Hex32, Option<Evaluator>>,
}

impl<'a> DecidingBundles<'a> {
    /// Searches only the folder `given`; without it, the configured folder and then the store.
    pub(super) fn new(
        decisions: &'a Decisions,
        policy_bundle: &Path,
        given: Option<&Path>,
    ) -> Result<Self, RecordsError> {
        Ok(Self {
            engine: PolicyEngine::new()?,
            decisions,
            folder: Some(given.unwrap_or(policy_bundle).to_owned()),
            is_given: given.is_some(),
            loaded: BTreeMap::new(),
        })
    }

    /// The bundle with this hash; `None` when it is not available.
    pub(super) async fn find(&mut self, hash: Hex32) -> Result<Option<&Evaluator>, RecordsError> {
        self.load_folder()?;
        if !self.loaded.contains_key(&hash) && !self.is_given {
            let found = self.load_stored(hash).await?;
            self.loaded.insert(hash, found);
        }
        Ok(self.loaded.get(&hash).and_then(Option::as_ref))
    }

    /// Loads the folder, once, because compiling a bundle can take seconds.
    fn load_folder(&mut self) -> Result<(), RecordsError> {
        let Some(folder) = self.folder.take() else { return Ok(()) };
        match load_unverified(&self.engine, &folder) {
            Ok(evaluator) => drop(self.loaded.insert(evaluator.bundle_hash(), Some(evaluator))),
            Err(fault) if self.is_given => return Err(fault.into()),
            // The configured folder may be gone or broken; the store has the bundle too.
            Err(_) => {}
        }
        Ok(())
    }

    /// Loads the bundle from the store, which keeps every bundle that was active.
    async fn load_stored(&self, hash: Hex32) -> Result<Option<Evaluator>, RecordsError> {
        let Some(stored) = self.decisions.bundle(hash).await? else { return Ok(None) };
        let files = BundleFiles::new(stored.files).map_err(bundle::Error::from);
        let trial = files.and_then(|files| trial::load(&self.engine, &files));
        let path = PathBuf::from(stored.bundle_id);
        let evaluator = trial.map_err(|source| BundleFault::Unusable { path, source })?.evaluator;
        Ok(Some(evaluator).filter(|evaluator| evaluator.bundle_hash() == hash))
    }
}
