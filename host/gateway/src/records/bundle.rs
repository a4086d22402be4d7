//! Bundles for looking back: the one that decided, by its hash, or a candidate.

use super::RecordsError;
use crate::clock::SystemClock;
use crate::settings::Settings;
use gateway_bundler::{source, trial};
use gateway_domain::ids::Hex32;
use gateway_engine::ports::TellTime;
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use gateway_store::Decisions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Why a bundle cannot be asked: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleFault {
    #[error("bundle `{}` cannot be used", path.display())]
    Unusable { path: PathBuf, source: gateway_bundler::Error },
    #[error("policy trust roots `{}` cannot be read", path.display())]
    TrustRoots { path: PathBuf, source: std::io::Error },
}

/// A candidate that the trust roots vouch for now.
pub(super) fn signed(
    engine: &PolicyEngine,
    settings: &Settings,
    folder: &Path,
) -> Result<Evaluator, BundleFault> {
    let path = settings.policy_trust_roots.clone();
    let roots = std::fs::read(&path).map_err(|source| BundleFault::TrustRoots { path, source })?;
    let load = || -> Result<Evaluator, gateway_bundler::Error> {
        let trust = TrustPolicy::parse(&roots)?;
        let bundle = Bundle::verify(source::read(folder)?, &trust, &Pins::default(), SystemClock.now())?;
        Ok(Evaluator::load(engine, &bundle)?)
    };
    load().map_err(|source| BundleFault::Unusable { path: folder.to_owned(), source })
}

/// A bundle whoever signed it, and whether or not its vectors hold.
pub(crate) fn unsigned(engine: &PolicyEngine, folder: &Path) -> Result<Evaluator, BundleFault> {
    let trial = source::read(folder).and_then(|files| trial::load(engine, &files));
    let trial = trial.map_err(|source| BundleFault::Unusable { path: folder.to_owned(), source })?;
    Ok(trial.evaluator)
}

/// The bundles that decided, loaded once each.
///
/// Who signed one is of no subject: its hash pins every byte of it, and the record names the hash.
pub(super) struct Deciders<'a> {
    engine: PolicyEngine,
    decisions: &'a Decisions,
    /// Where the first look goes; none once it was made.
    folder: Option<PathBuf>,
    /// Nothing but the folder: the operator named it.
    is_given: bool,
    loaded: BTreeMap<Hex32, Option<Evaluator>>,
}

impl<'a> Deciders<'a> {
    /// Looks in `given` alone, or else in the configured folder and then in the store.
    pub(super) fn new(
        decisions: &'a Decisions,
        settings: &Settings,
        given: Option<&Path>,
    ) -> Result<Self, RecordsError> {
        Ok(Self {
            engine: PolicyEngine::new()?,
            decisions,
            folder: Some(given.unwrap_or(&settings.policy_bundle).to_owned()),
            is_given: given.is_some(),
            loaded: BTreeMap::new(),
        })
    }

    /// The bundle of this hash; none when it is not at hand.
    pub(super) async fn find(&mut self, hash: Hex32) -> Result<Option<&Evaluator>, RecordsError> {
        self.look_into_folder()?;
        if !self.loaded.contains_key(&hash) && !self.is_given {
            let found = self.kept(hash).await?;
            self.loaded.insert(hash, found);
        }
        Ok(self.loaded.get(&hash).and_then(Option::as_ref))
    }

    /// Once: compiling a bundle can take seconds.
    fn look_into_folder(&mut self) -> Result<(), RecordsError> {
        let Some(folder) = self.folder.take() else { return Ok(()) };
        match unsigned(&self.engine, &folder) {
            Ok(evaluator) => drop(self.loaded.insert(evaluator.bundle_hash(), Some(evaluator))),
            Err(fault) if self.is_given => return Err(fault.into()),
            // A folder that is gone or broken is not where the bundle is.
            Err(_) => {}
        }
        Ok(())
    }

    /// The store keeps every bundle that was ever active.
    async fn kept(&self, hash: Hex32) -> Result<Option<Evaluator>, RecordsError> {
        let Some(kept) = self.decisions.bundle(hash).await? else { return Ok(None) };
        let files = BundleFiles::new(kept.files).map_err(gateway_bundler::Error::from);
        let trial = files.and_then(|files| trial::load(&self.engine, &files));
        let path = PathBuf::from(kept.bundle_id);
        let evaluator = trial.map_err(|source| BundleFault::Unusable { path, source })?.evaluator;
        Ok(Some(evaluator).filter(|evaluator| evaluator.bundle_hash() == hash))
    }
}
