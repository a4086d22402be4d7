//! Bundles for looking back: the one that decided, by its hash, or a candidate.

use super::RecordsError;
use crate::clock::SystemClock;
use crate::settings::Settings;
use ed25519_dalek::SigningKey;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::TellTime;
use gateway_policy::bundle::{MANIFEST_FILE, Manifest, Role, pack};
use gateway_policy::{Bundle, BundleError, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use gateway_store::Decisions;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Why a bundle cannot be asked: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleFault {
    #[error("bundle `{}` cannot be used", path.display())]
    Unusable { path: PathBuf, source: BundleError },
    #[error("policy trust roots `{}` cannot be read", path.display())]
    TrustRoots { path: PathBuf, source: std::io::Error },
    #[error("no random number can be had")]
    NoRandomness,
}

/// A candidate that the trust roots vouch for now.
pub(super) fn signed(
    engine: &PolicyEngine,
    settings: &Settings,
    folder: &Path,
) -> Result<Evaluator, BundleFault> {
    let path = settings.policy_trust_roots.clone();
    let roots = std::fs::read(&path).map_err(|source| BundleFault::TrustRoots { path, source })?;
    let load = || {
        let files = BundleFiles::read(folder)?;
        let trust = TrustPolicy::parse(&roots)?;
        let bundle = Bundle::verify(files, &trust, &Pins::default(), SystemClock.now())?;
        Evaluator::load(engine, &bundle)
    };
    load().map_err(|source| BundleFault::Unusable { path: folder.to_owned(), source })
}

/// A bundle whoever signed it, at an instant at which it is valid.
pub(super) fn unsigned(engine: &PolicyEngine, folder: &Path) -> Result<Evaluator, BundleFault> {
    let key = key_for_once()?;
    let load = || vouched(engine, &BundleFiles::read(folder)?, &key);
    load().map_err(|source| BundleFault::Unusable { path: folder.to_owned(), source })
}

fn key_for_once() -> Result<SigningKey, BundleFault> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|_| BundleFault::NoRandomness)?;
    Ok(SigningKey::from_bytes(&seed))
}

/// There is one way to a bundle, and it wants signatures: a copy in memory is signed with a key that exists for this
/// call, and that key alone is trusted. Every other rule holds, and nothing that leaves this process is signed.
fn vouched(engine: &PolicyEngine, files: &BundleFiles, key: &SigningKey) -> Result<Evaluator, BundleError> {
    let signature = pack::sign(files, key)?;
    let bare = files.iter().filter(|(name, _)| !name.starts_with("signatures/"));
    let bare = bare.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
    let files = BundleFiles::new(bare.chain([signature]))?;
    let valid_at = Manifest::parse(files.get(MANIFEST_FILE)?)?.not_before_ms.unwrap_or(0);
    let keys = BTreeSet::from([Hex32::new(key.verifying_key().to_bytes())]);
    let role = Role { role: "offline".to_owned(), threshold: 1, keys };
    let trust = TrustPolicy { roles: vec![role], revoked: BTreeSet::new() };
    let bundle = Bundle::verify(files, &trust, &Pins::default(), EpochMs(valid_at))?;
    Evaluator::load(engine, &bundle)
}

/// The bundles that decided, loaded once each.
///
/// Who signed one is of no matter: its hash pins every byte of it, and the record names the hash.
pub(super) struct Deciders<'a> {
    engine: PolicyEngine,
    decisions: &'a Decisions,
    folder: PathBuf,
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
            folder: given.unwrap_or(&settings.policy_bundle).to_owned(),
            is_given: given.is_some(),
            loaded: BTreeMap::new(),
        })
    }

    /// The bundle of this hash; none when it is not at hand.
    pub(super) async fn find(&mut self, hash: Hex32) -> Result<Option<&Evaluator>, RecordsError> {
        if !self.loaded.contains_key(&hash) {
            let found = self.look_for(hash).await?;
            self.loaded.insert(hash, found);
        }
        Ok(self.loaded.get(&hash).and_then(Option::as_ref))
    }

    async fn look_for(&self, hash: Hex32) -> Result<Option<Evaluator>, RecordsError> {
        let in_folder = match unsigned(&self.engine, &self.folder) {
            Ok(evaluator) => Some(evaluator),
            Err(fault) if self.is_given => return Err(fault.into()),
            // A folder that is gone or broken is not where the bundle is.
            Err(_) => None,
        };
        let found = in_folder.filter(|evaluator| evaluator.bundle_hash() == hash);
        if found.is_some() || self.is_given { Ok(found) } else { self.kept(hash).await }
    }

    /// The store keeps every bundle that was ever active.
    async fn kept(&self, hash: Hex32) -> Result<Option<Evaluator>, RecordsError> {
        let Some(kept) = self.decisions.bundle(hash).await? else { return Ok(None) };
        let key = key_for_once()?;
        let load = || vouched(&self.engine, &BundleFiles::new(kept.files)?, &key);
        let path = || PathBuf::from(kept.bundle_id.clone());
        let evaluator = load().map_err(|source| BundleFault::Unusable { path: path(), source })?;
        Ok(Some(evaluator).filter(|evaluator| evaluator.bundle_hash() == hash))
    }
}
