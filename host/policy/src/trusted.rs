//! Bundles that a party gets from another one that it does not trust: verified under its own trust roots and pins, compiled, and
//! found by their hash.

use crate::PolicyEngine;
use crate::bundle::{ActivationRecord, Bundle, BundleError, BundleFiles, Pins, TrustPolicy};
use crate::evaluator::Evaluator;
use crate::limits::{BUNDLES_TRUSTED_MAX, OFFER_BYTES_MAX, SIGNED_FILE_BYTES_MAX};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::SignedDocument;
use gateway_domain::policy::document::{self, DocumentError, DocumentRoles};
use gateway_domain::time::EpochMs;
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::sync::Arc;

/// Trust roots and pins, which can be replaced at any time. Clones share them.
#[derive(Clone, Debug)]
pub struct Trust {
    current: Arc<RwLock<Arc<Current>>>,
    allows_development: bool,
}

#[derive(Debug)]
struct Current {
    /// `None` while the roots cannot be read: the change may be a revocation, so no bundle is trusted.
    roots: Option<TrustPolicy>,
    /// Those of the roots; none while these cannot be read.
    documents: DocumentRoles,
    pins: Pins,
}

impl Trust {
    /// Trusts no bundle until [`Trust::replace`] gives roots. `allows_development` says whether these may have the role of the
    /// committed development key.
    #[must_use]
    pub fn new(allows_development: bool) -> Self {
        let (documents, pins) = (DocumentRoles::default(), Pins::default());
        let current = Arc::new(Current { roots: None, documents, pins });
        Self { current: Arc::new(RwLock::new(current)), allows_development }
    }

    /// Replaces trust roots and pins, for all clones. `roots` is the text of their file. After an error no bundle is trusted.
    ///
    /// # Errors
    /// [`BundleError`] of the roots.
    pub fn replace(&self, roots: Result<&[u8], BundleError>, pins: Pins) -> Result<(), BundleError> {
        let parsed = roots.and_then(TrustPolicy::parse).and_then(|roots| {
            roots.check_development(self.allows_development)?;
            let documents = roots.document_roles()?;
            Ok((roots, documents))
        });
        let (roots, documents, result) = match parsed {
            Ok((roots, documents)) => (Some(roots), documents, Ok(())),
            Err(error) => (None, DocumentRoles::default(), Err(error)),
        };
        *self.current.write() = Arc::new(Current { roots, documents, pins });
        result
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read())
    }
}

impl Current {
    fn roots(&self) -> Result<&TrustPolicy, BundleError> {
        self.roots.as_ref().ok_or(BundleError::NoTrustRoots)
    }
}

/// Compiled bundles of one process by hash, so that several verifiers in it compile each bundle once. The hash covers the
/// component and its data; each verifier checks the signatures itself.
#[derive(Debug, Default)]
pub struct CompiledBundles(Mutex<Compiled>);

#[derive(Debug, Default)]
struct Compiled {
    /// Started for the first bundle that is compiled here.
    engine: Option<PolicyEngine>,
    /// The most recently used one last, at most [`BUNDLES_TRUSTED_MAX`].
    evaluators: Vec<Arc<Evaluator>>,
    n_compiled: u64,
}

impl CompiledBundles {
    /// Compiles with this engine, which other parts of the process use too.
    #[must_use]
    pub fn with_engine(engine: PolicyEngine) -> Self {
        Self(Mutex::new(Compiled { engine: Some(engine), ..Compiled::default() }))
    }

    /// Adds a bundle that the process has compiled elsewhere.
    pub fn share(&self, evaluator: Arc<Evaluator>) {
        push(&mut self.0.lock().evaluators, evaluator, |it| it.bundle_hash());
    }

    /// How many bundles were compiled here.
    #[must_use]
    pub fn n_compiled(&self) -> u64 {
        self.0.lock().n_compiled
    }

    /// The compiled bundle. Compiles it and runs its test vectors if it is not there; another caller waits for that.
    ///
    /// # Errors
    /// [`BundleError`], as [`Evaluator::load`].
    fn load(&self, bundle: &Bundle) -> Result<Arc<Evaluator>, BundleError> {
        let mut compiled = self.0.lock();
        if let Some(evaluator) = take(&mut compiled.evaluators, |it| it.bundle_hash() == bundle.hash()) {
            compiled.evaluators.push(Arc::clone(&evaluator));
            return Ok(evaluator);
        }
        let engine = match &compiled.engine {
            Some(engine) => engine.clone(),
            None => compiled.engine.insert(PolicyEngine::new()?).clone(),
        };
        let evaluator = Arc::new(Evaluator::load(&engine, bundle)?);
        compiled.n_compiled = compiled.n_compiled.saturating_add(1);
        push(&mut compiled.evaluators, Arc::clone(&evaluator), |it| it.bundle_hash());
        Ok(evaluator)
    }
}

/// A bundle that passed all checks when it was added.
#[derive(Debug)]
pub struct TrustedBundle {
    bundle: Bundle,
    evaluator: Arc<Evaluator>,
    sequence: u64,
    /// The trust that confirmed its signatures last: checking them again takes longer than an evaluation.
    confirmed_by: Mutex<Arc<Current>>,
}

impl TrustedBundle {
    /// The bundle.
    #[must_use]
    pub const fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Evaluates requests with it.
    #[must_use]
    pub fn evaluator(&self) -> &Arc<Evaluator> {
        &self.evaluator
    }

    /// Its own sequence, or that of the signed activation record with which it was offered, if that is higher.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// The bundles that one verifier trusts.
pub struct TrustedBundles {
    trust: Trust,
    compiled: Arc<CompiledBundles>,
    /// The most recently used one last, at most [`BUNDLES_TRUSTED_MAX`].
    bundles: Mutex<Vec<Arc<TrustedBundle>>>,
}

impl TrustedBundles {
    /// None yet.
    #[must_use]
    pub fn new(trust: Trust, compiled: Arc<CompiledBundles>) -> Self {
        Self { trust, compiled, bundles: Mutex::default() }
    }

    /// Verifies, compiles and tests a bundle, and keeps it; the least recently used one is dropped. `activation` is the signed
    /// record that brings an older bundle back, if there is one for it. Takes tens of milliseconds.
    pub fn add(
        &self,
        files: BundleFiles,
        activation: Option<&[u8]>,
        now: EpochMs,
    ) -> Result<Arc<TrustedBundle>, BundleError> {
        check_size(&files, activation)?;
        let current = self.trust.current();
        let roots = current.roots()?;
        let bundle = Bundle::verify(files, roots, &current.pins, now)?;
        let record = match activation.map(|bytes| ActivationRecord::verify(bytes, roots, now)).transpose() {
            Ok(record) => record.filter(|signed| signed.record().bundle_hash == bundle.hash()),
            // The verifier has what the record did while it was valid.
            Err(BundleError::ActivationExpired { .. }) => None,
            Err(error) => return Err(error),
        };
        let own = bundle.manifest().sequence;
        let sequence = record.map_or(own, |signed| signed.record().sequence.max(own));
        let evaluator = self.compiled.load(&bundle)?;
        let trusted =
            Arc::new(TrustedBundle { bundle, evaluator, sequence, confirmed_by: Mutex::new(current) });
        push(&mut self.bundles.lock(), Arc::clone(&trusted), |it| it.bundle.hash());
        Ok(trusted)
    }

    /// The bundle with this hash, if it was added and not dropped. Call [`Self::check`] before its verdict counts.
    #[must_use]
    pub fn find(&self, hash: Hex32) -> Option<Arc<TrustedBundle>> {
        let mut bundles = self.bundles.lock();
        let found = take(&mut bundles, |it| it.bundle.hash() == hash)?;
        bundles.push(Arc::clone(&found));
        Some(found)
    }

    /// Checks that the bundle is trusted now: by the current roots and pins, and within its validity period.
    pub fn check(&self, bundle: &TrustedBundle, now: EpochMs) -> Result<(), BundleError> {
        let current = self.trust.current();
        let mut confirmed_by = bundle.confirmed_by.lock();
        if !Arc::ptr_eq(&confirmed_by, &current) {
            bundle.bundle.check_trust(current.roots()?, &current.pins)?;
            *confirmed_by = current;
        }
        drop(confirmed_by);
        bundle.bundle.check_validity(now)
    }

    /// Reads the documents of an evaluation, and verifies their signatures by the current roots.
    ///
    /// # Errors
    /// [`DocumentError`] for the first that is not trusted.
    pub fn documents(&self, envelopes: &[Envelope]) -> Result<Vec<Arc<SignedDocument>>, DocumentError> {
        let documents = document::parse_all(envelopes)?;
        let current = self.trust.current();
        documents.iter().try_for_each(|one| one.verify(&current.documents))?;
        Ok(documents)
    }

    /// Whether the current pins name this bundle.
    #[must_use]
    pub fn is_pinned(&self, hash: Hex32) -> bool {
        self.trust.current().pins.names(hash)
    }
}

impl fmt::Debug for TrustedBundles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.bundles.lock().iter().map(|it| it.bundle.hash())).finish()
    }
}

/// Checks the sizes together; those of the single files were checked by [`BundleFiles::new`].
fn check_size(files: &BundleFiles, activation: Option<&[u8]>) -> Result<(), BundleError> {
    let n_bytes = files.iter().map(|(_, bytes)| bytes.len()).fold(0, usize::saturating_add);
    if n_bytes > OFFER_BYTES_MAX {
        return Err(BundleError::FileTooLarge { file: "*".to_owned(), bytes_max: OFFER_BYTES_MAX as u64 });
    }
    if activation.is_some_and(|record| record.len() as u64 > SIGNED_FILE_BYTES_MAX) {
        let file = "activation record".to_owned();
        return Err(BundleError::FileTooLarge { file, bytes_max: SIGNED_FILE_BYTES_MAX });
    }
    Ok(())
}

/// Removes the entry and returns it.
fn take<T>(entries: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let index = entries.iter().position(is_it)?;
    Some(entries.remove(index))
}

/// Adds an entry as the most recently used one, in place of an entry with the same hash or of the least recently used one.
fn push<T>(entries: &mut Vec<T>, entry: T, hash: impl Fn(&T) -> Hex32) {
    let new = hash(&entry);
    let _replaced = take(entries, |it| hash(it) == new);
    if entries.len() >= BUNDLES_TRUSTED_MAX {
        entries.remove(0);
    }
    entries.push(entry);
}
