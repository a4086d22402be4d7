//! A deployment for the tests of the lifecycle: a folder, a store, and a clock that the tests set.

use crate::lifecycle::{Lifecycle, Sources, StartError};
use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{FaultKind, Moment};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, Activation, ReadClock, StorePolicies, StoredBundle};
use gateway_policy::bundle::{ActivationRecord, Pins, Vector};
use gateway_policy::testing::{
    NOW, author, bundle_of, committed, committed_bundle, engine, facts, guest, key, payment, signed, with,
    write_folder,
};
use gateway_policy::{BundleFiles, Evaluator, TrustPolicy};
use gateway_store::Store;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

pub(in crate::tests) struct Clock(AtomicU64);

impl Clock {
    pub(in crate::tests) fn set(&self, now: EpochMs) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl ReadClock for Clock {
    fn now(&self) -> EpochMs {
        EpochMs(self.0.load(Ordering::SeqCst))
    }
}

pub(in crate::tests) struct Deployment {
    pub(in crate::tests) folder: TempDir,
    pub(in crate::tests) clock: Arc<Clock>,
    /// Opened once: a restart of the gateway is another lifecycle on it.
    store: Arc<tokio::sync::OnceCell<Arc<Store>>>,
    database: Arc<TempDir>,
}

impl Deployment {
    /// A deployment that trusts the key of `author`.
    pub(in crate::tests) fn new() -> Self {
        let deployment = Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(Clock(AtomicU64::new(NOW.0))),
            store: Arc::default(),
            database: Arc::new(tempfile::tempdir().unwrap()),
        };
        deployment.trust(&author());
        deployment
    }

    /// The same store and clock, with a folder of its own.
    pub(in crate::tests) fn clone_parts(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(self.path("trust.json"), folder.path().join("trust.json")).unwrap();
        let (clock, store, database) =
            (Arc::clone(&self.clock), Arc::clone(&self.store), Arc::clone(&self.database));
        Self { folder, clock, store, database }
    }

    pub(in crate::tests) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(in crate::tests) fn offer(&self, files: &BundleFiles) {
        write_folder(&self.path("bundle"), files);
    }

    pub(in crate::tests) fn offer_candidate(&self, files: &BundleFiles) {
        write_folder(&self.path("candidate"), files);
    }

    pub(in crate::tests) fn remove_bundle(&self) {
        fs::remove_dir_all(self.path("bundle")).unwrap();
    }

    pub(in crate::tests) fn trust(&self, trust: &TrustPolicy) {
        fs::write(self.path("trust.json"), serde_json::to_vec(trust).unwrap()).unwrap();
    }

    pub(in crate::tests) fn record(&self, sequence: u64, bundle: &BundleFiles, keys: &[&SigningKey]) {
        let record = ActivationRecord {
            sequence,
            bundle_hash: hash_of(bundle),
            reason: "a test".into(),
            not_after_ms: None,
        };
        let envelope = serde_json::to_vec(&record.sign(keys).unwrap()).unwrap();
        fs::write(self.path("activation.json"), envelope).unwrap();
    }

    /// The first start, with this bundle on offer.
    pub(in crate::tests) async fn start(&self, files: &BundleFiles) -> Arc<Lifecycle> {
        self.offer(files);
        self.open().await.unwrap()
    }

    pub(in crate::tests) async fn open(&self) -> Result<Arc<Lifecycle>, StartError> {
        let prepared = self.sources().prepare(self.clock.now())?;
        let path = self.database.path().join("gateway.db");
        let open = || async { Arc::new(Store::open(path.to_str().unwrap()).await.unwrap()) };
        let store = Arc::clone(self.store.get_or_init(open).await);
        prepared.open(store, Arc::clone(&self.clock) as Arc<dyn ReadClock>, true).await
    }

    fn sources(&self) -> Sources {
        Sources {
            bundle: self.path("bundle"),
            trust_roots: self.path("trust.json"),
            activation: Some(self.path("activation.json")),
            candidate: Some(self.path("candidate")),
            documents: Some(self.path("documents")),
            pins: Pins::default(),
            allows_development: false,
        }
    }

    /// Starts without the folder, on a store that returns these files for any bundle.
    pub(in crate::tests) async fn open_with_stored_files(&self, files: &BundleFiles) -> Arc<Lifecycle> {
        let files = files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
        self.open_on(Arc::new(self.tampered(Some(files)))).await
    }

    /// As [`Self::open`], on a store whose newest activations can be hidden.
    pub(in crate::tests) async fn open_on_tampered_store(&self) -> (Arc<Lifecycle>, Arc<TamperedStore>) {
        let store = Arc::new(self.tampered(None));
        (self.open_on(Arc::clone(&store)).await, store)
    }

    fn tampered(&self, files: Option<Files>) -> TamperedStore {
        TamperedStore {
            store: Arc::clone(self.store.get().unwrap()),
            files,
            newest: AtomicU64::new(u64::MAX),
        }
    }

    async fn open_on(&self, store: Arc<TamperedStore>) -> Arc<Lifecycle> {
        let prepared = self.sources().prepare(self.clock.now()).unwrap();
        prepared.open(store, Arc::clone(&self.clock) as Arc<dyn ReadClock>, true).await.unwrap()
    }
}

/// A store that someone tampered with.
pub(in crate::tests) struct TamperedStore {
    store: Arc<Store>,
    /// Returned for any bundle, if set.
    files: Option<Files>,
    /// The highest sequence of an activation that is returned.
    newest: AtomicU64,
}

type Files = Vec<(String, Vec<u8>)>;

impl TamperedStore {
    pub(in crate::tests) fn hide_above(&self, sequence: u64) {
        self.newest.store(sequence, Ordering::SeqCst);
    }
}

#[async_trait]
impl StorePolicies for TamperedStore {
    async fn activation_append(
        &self,
        one: Activation,
        bundle: StoredBundle,
    ) -> Result<Activated, Unavailable> {
        self.store.activation_append(one, bundle).await
    }

    async fn activations(&self, n_max: u32) -> Result<Vec<Activation>, Unavailable> {
        let newest = self.newest.load(Ordering::SeqCst);
        let all = self.store.activations(u32::MAX).await?.into_iter().filter(|it| it.sequence <= newest);
        Ok(all.take(usize::try_from(n_max).unwrap()).collect())
    }

    async fn bundle_load(&self, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
        match self.files.clone() {
            Some(files) => Ok(Some(StoredBundle { bundle_hash, bundle_id: "tampered".into(), files })),
            None => self.store.bundle_load(bundle_hash).await,
        }
    }

    async fn bundle_file(&self, bundle_hash: Hex32, name: &str) -> Result<Option<Vec<u8>>, Unavailable> {
        self.store.bundle_file(bundle_hash, name).await
    }
}

/// A bundle that allows every request, with this sequence, signed by `key(1)`.
pub(in crate::tests) fn bundle(sequence: u64) -> BundleFiles {
    static ALLOWS: LazyLock<BundleFiles> = LazyLock::new(|| build("i32.const 0"));
    signed(&ALLOWS, &[&key(1)], |manifest| manifest.sequence = sequence)
}

/// As [`bundle`], but denies every request.
pub(in crate::tests) fn denying(sequence: u64) -> BundleFiles {
    static DENIES: LazyLock<BundleFiles> =
        LazyLock::new(|| build("(i32.store8 (i32.const 0) (i32.const 1)) i32.const 0"));
    signed(&DENIES, &[&key(1)], |manifest| manifest.sequence = sequence)
}

/// As [`bundle`], with the test vectors of payment-guard, which it fails.
pub(in crate::tests) fn failing_its_vectors(sequence: u64) -> BundleFiles {
    let name = "tests/payments.json";
    let vectors = committed();
    let vectors = vectors.get(name).unwrap();
    let files = with(&bundle(sequence), &[(name, vectors)]).unwrap();
    signed(&files, &[&key(1)], |manifest| {
        manifest.files.insert(name.into(), gateway_domain::canonical::digest_bytes("", vectors));
    })
}

/// A signed bundle of a guest whose `evaluate` has this body, with one vector: a payment, and the verdict that the guest gives.
pub(in crate::tests) fn build(body: &str) -> BundleFiles {
    let (engine, name) = (engine(), "tests/one.json");
    let bare = bundle_of(&engine, &guest(1, "", body), |_| ());
    let vectors = committed_bundle("payment-guard");
    let mut vectors: Vec<Vector> =
        serde_json::from_slice(vectors.get("tests/payments.json").unwrap()).unwrap();
    vectors.truncate(1);
    vectors[0].facts.clear();
    vectors[0].expect = Evaluator::link(&engine, &bare).unwrap().answer(name, &vectors[0]).unwrap();
    let vectors = serde_json::to_vec(&vectors).unwrap();
    let files = with(bare.files(), &[(name, &vectors)]).unwrap();
    signed(&files, &[&key(1)], |manifest| {
        manifest.files.insert(name.into(), gateway_domain::canonical::digest_bytes("", &vectors));
    })
}

pub(in crate::tests) fn hash_of(files: &BundleFiles) -> Hex32 {
    files.bundle_hash().unwrap()
}

#[track_caller]
pub(in crate::tests) fn active(lifecycle: &Lifecycle) -> Hex32 {
    lifecycle.host().active().unwrap().bundle_hash()
}

pub(in crate::tests) async fn watch(lifecycle: &Lifecycle) {
    lifecycle.reload_if_changed().await;
}

/// The kind of fault of an evaluation at the time [`NOW`], if any.
pub(in crate::tests) async fn fault(lifecycle: &Lifecycle) -> Option<&'static str> {
    let sample = payment("acct-2", &[]);
    let evaluation =
        lifecycle.host().evaluate_with_active(&sample.request(Moment::Submit), &facts("2")).await;
    evaluation.fault_kind().map(FaultKind::as_str)
}
