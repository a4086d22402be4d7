//! The parts that are not replaced: the policy with the repository's bundle, the authority with its own checks, and the settings.

use async_trait::async_trait;
use gateway_domain::admission::{Admission, Authorities};
use gateway_domain::approval::{Approvers, PinnedRegistry, SigningRule};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::facts;
use gateway_domain::testing::approvers::{entry, key, key_entry, registry};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadClock;
use gateway_engine::{RateLimit, Rules, Unavailable};
use gateway_fleet::FindBundle;
use gateway_node::{BundleOffer, CompiledBundles, NodeSettings, Trust};
use gateway_policy::{BundleFiles, Pins};
use gateway_policy_host::Lifecycle;
use gateway_policy_host::lifecycle::Sources;
use gateway_seal::at_rest::Kek;
use gateway_store::Store;
use policy_authority::{Authority, DecisionRequest, Policies, Record, Unverified, Verifier};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The number of nodes.
pub(crate) const N_NODES: u16 = 5;
/// The distinct approvals that every operation needs.
pub(crate) const N_APPROVALS: u32 = 2;
/// The people who approve.
pub(crate) const APPROVERS: [&str; 3] = ["alice", "bob", "carol"];
/// Milliseconds until missing approvals end an operation.
pub(crate) const APPROVAL_TTL_MS: u64 = 3_600_000;
/// Milliseconds for which a decision is valid.
pub(crate) const ADMISSION_TTL_MS: u64 = 900_000;
/// The time at which every run starts.
const START_MS: u64 = 1_750_000_000_000;
/// The oldest approval that counts, in milliseconds.
const APPROVAL_AGE_MAX_MS: u64 = APPROVAL_TTL_MS;

/// The time of the simulation, and the error of one process's clock.
#[derive(Clone)]
pub(crate) struct ProcessClock {
    world: Arc<AtomicU64>,
    error_ms: Arc<AtomicI64>,
}

impl ProcessClock {
    /// A clock at the start, and with it the simulation's time.
    pub(crate) fn start() -> Self {
        Self { world: Arc::new(AtomicU64::new(START_MS)), error_ms: Arc::default() }
    }

    /// A clock of another process, at the same time.
    pub(crate) fn of_another_process(&self) -> Self {
        Self { world: Arc::clone(&self.world), error_ms: Arc::default() }
    }

    /// Advances the simulation's time.
    pub(crate) fn advance(&self, ms: u64) {
        self.world.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the error of this process's clock.
    pub(crate) fn set_error(&self, ms: i64) {
        self.error_ms.store(ms, Ordering::Relaxed);
    }
}

impl ReadClock for ProcessClock {
    fn now(&self) -> EpochMs {
        let world = self.world.load(Ordering::Relaxed);
        EpochMs(world.saturating_add_signed(self.error_ms.load(Ordering::Relaxed)))
    }
}

/// What all runs of one process share, because it takes long to make: the runtime of the databases, and the compiled policy.
pub(crate) struct Shared {
    /// Runs the databases of one world, one call at a time.
    pub(crate) io: Runtime,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) bundle: BundleOffer,
    compiled: Arc<CompiledBundles>,
    trust: Trust,
    approvers: SigningRule,
    pub(crate) folder: TempDir,
    /// Ignores the signal of a write beyond the limit of file sizes, so that the write fails.
    _too_large: tokio::signal::unix::Signal,
}

/// Linux's SIGXFSZ.
const SIGXFSZ: i32 = 25;

impl Shared {
    pub(crate) fn new() -> Self {
        let io = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = memory_folder();
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles");
        let roots = bundles.join("trust-development.json");
        let sources = Sources {
            bundle: bundles.join("payment-guard"),
            trust_roots: roots.clone(),
            activation: None,
            documents: None,
            candidate: None,
            pins: Pins::default(),
            allows_development: true,
        };
        let clock = ProcessClock::start();
        let (lifecycle, too_large) = io.block_on(async {
            let path = folder.path().join("policies.db");
            let store = Arc::new(Store::open(path.to_str().unwrap()).await.unwrap());
            let prepared = sources.prepare(clock.now()).unwrap().require_bundle().unwrap();
            let kind = tokio::signal::unix::SignalKind::from_raw(SIGXFSZ);
            let too_large = tokio::signal::unix::signal(kind).unwrap();
            (prepared.open(store, Arc::new(clock.clone()), true).await.unwrap(), too_large)
        });
        let trust = Trust::new(true);
        trust.replace(Ok(&std::fs::read(&roots).unwrap()), Pins::default()).unwrap();
        let compiled = CompiledBundles::with_engine(lifecycle.engine().clone());
        compiled.share(lifecycle.host().active().unwrap());
        let files = BundleFiles::read(&bundles.join("payment-guard")).unwrap();
        let people: Vec<_> =
            (1..).zip(APPROVERS).map(|(byte, name)| entry(name, &[key_entry(&key(byte))])).collect();
        let approvers = Approvers::parse(registry(&people).as_bytes()).unwrap();
        let approvers = PinnedRegistry::new(Arc::new(approvers), APPROVAL_AGE_MAX_MS);
        Self {
            io,
            lifecycle,
            bundle: BundleOffer { files, activation: None },
            compiled: Arc::new(compiled),
            trust,
            approvers: SigningRule::Required(approvers),
            folder,
            _too_large: too_large,
        }
    }

    /// Whether approvals are signed, by the people's own keys.
    pub(crate) fn signing_rule(&self, is_signed: bool) -> SigningRule {
        if is_signed { self.approvers.clone() } else { SigningRule::Off }
    }

    /// The settings of every node but its clock.
    pub(crate) fn node_settings(&self, is_signed: bool, clock: ProcessClock) -> NodeSettings {
        NodeSettings {
            kek: Arc::new(Kek::new([5; 32].into())),
            authorities: Authorities::new([AuthorityProcess::key().public_key()], 1).unwrap(),
            rules: rules(),
            approver_roles: BTreeMap::new(),
            policy_trust: self.trust.clone(),
            compiled_bundles: Arc::clone(&self.compiled),
            decision_ttl_max_ms: ADMISSION_TTL_MS,
            signed_approvals: self.signing_rule(is_signed),
            keys_without_approvals: false,
            clock: Arc::new(move || clock.now()),
        }
    }
}

/// A folder in memory if there is one: nothing must survive the run, and a sync of a disk would take most of the time.
fn memory_folder() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let memory = if memory.is_dir() { memory } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("simulation-").tempdir_in(memory).unwrap()
}

/// The deployment's rules, at the gateway and at the nodes.
fn rules() -> facts::Rules {
    facts::Rules {
        permitted_recipients: "*".to_owned(),
        required_approvals: N_APPROVALS,
        separation_of_duties: true,
    }
}

/// The engine's rules. Its own timeout is longer than a run: only the simulation's time passes.
pub(crate) fn engine_rules(signed_approvals: SigningRule) -> Rules {
    let off = RateLimit { per_second: 0, burst: 1 };
    Rules {
        lost_operations: BTreeSet::new(),
        policy: rules(),
        signed_approvals,
        approval_ttl_ms: APPROVAL_TTL_MS,
        admission_ttl_ms: ADMISSION_TTL_MS,
        auto_provision_keys: false,
        refuses_stale_fences: true,
        n_nodes: N_NODES,
        admission_rate: off,
        preview_rate: off,
        preview_records_max: 0,
        answer_within: Duration::from_secs(86_400),
        recorded_within: Duration::from_secs(86_400),
    }
}

/// The authority, as in a process of its own: it checks events, approvals and times, and runs the policy itself, before it signs.
pub(crate) struct AuthorityProcess {
    authority: Authority,
    verifier: Verifier,
    pub(crate) clock: ProcessClock,
}

impl AuthorityProcess {
    pub(crate) fn key() -> Authority {
        Authority::new(&[9; 32])
    }

    pub(crate) fn new(shared: &Shared, signed_approvals: SigningRule, clock: ProcessClock) -> Self {
        let policies = Policies::new(shared.trust.clone(), Arc::clone(&shared.compiled));
        policies.offer(shared.bundle.clone(), clock.now()).unwrap();
        let verifier = Verifier {
            signed_approvals,
            rules: rules(),
            keys_without_approvals: false,
            decision_ttl_max_ms: ADMISSION_TTL_MS,
            policies,
            record: Record::in_memory(),
            authorities: Authorities::new([Self::key().public_key()], 1).unwrap(),
        };
        Self { authority: Self::key(), verifier, clock }
    }

    pub(crate) async fn decide(&self, request: &DecisionRequest) -> Result<Admission, Unverified> {
        let verified = self.verifier.verify(request, self.clock.now())?;
        self.verifier.admit(&self.authority, verified).await
    }
}

/// Has the one bundle.
pub(crate) struct OneBundle(pub(crate) BundleOffer);

#[async_trait]
impl FindBundle for OneBundle {
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable> {
        let is_found = self.0.files.bundle_hash().is_ok_and(|hash| hash == bundle_hash);
        Ok(is_found.then(|| self.0.clone()))
    }
}
