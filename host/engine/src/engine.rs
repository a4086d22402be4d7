//! The engine: its ports, its rules, and the use cases as methods of two lines each.

use crate::backoff::Backoff;
use crate::error::EngineError;
use crate::holders::Holders;
use crate::locks::OperationLocks;
use crate::ports::{
    CommitOperations, DescribePolicies, DriveNodes, EvaluatePolicy, ReadLog, ReadOperations, SignAdmission,
    SignCheckpoint, TellTime,
};
use crate::rate::{RateLimit, RateLimiter};
use crate::readiness::LastProbes;
use crate::spending::SpendingLocks;
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::Tenant;
use gateway_domain::policy::facts;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Key generations on behalf of other operations at one time.
const PROVISIONING_MAX: usize = 2;

/// The adapters.
#[derive(Clone)]
#[expect(missing_docs, reason = "each is the port of its name")]
pub struct Ports {
    pub commits: Arc<dyn CommitOperations>,
    pub reads: Arc<dyn ReadOperations>,
    pub log: Arc<dyn ReadLog>,
    pub checkpoints: Arc<dyn SignCheckpoint>,
    pub policy: Arc<dyn EvaluatePolicy>,
    pub policies: Arc<dyn DescribePolicies>,
    pub authority: Arc<dyn SignAdmission>,
    pub nodes: Arc<dyn DriveNodes>,
    pub clock: Arc<dyn TellTime>,
}

/// What the deployment settled.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What policies may ask for.
    pub policy: facts::Rules,
    /// Whether approvals are signed by their approvers.
    pub signed_approvals: SigningRule,
    /// How long approvals may take.
    pub approval_ttl_ms: u64,
    /// How long an admission decision holds.
    pub admission_ttl_ms: u64,
    /// Development only: a key is made for a product operation that has none, and without approvals for a signature.
    pub auto_provision_keys: bool,
    /// How many runtime nodes there are: participants are numbered below it.
    pub n_nodes: u16,
    /// Submissions a client may make.
    pub admission_rate: RateLimit,
    /// Previews a client may ask this process for.
    pub preview_rate: RateLimit,
    /// How many previews are kept on record; none at all with 0.
    pub preview_records_max: u32,
    /// How long a caller waits for work that goes on without it.
    pub answer_within: Duration,
}

/// Which operations a caller can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All of them: the development bypass without identity.
    Everything,
    /// One tenant's.
    Tenant(Tenant),
}

impl Visibility {
    /// Whether this tenant's operations exist for the caller.
    #[must_use]
    pub fn includes(&self, tenant: &Tenant) -> bool {
        match self {
            Self::Everything => true,
            Self::Tenant(own) => own == tenant,
        }
    }
}

/// The use cases. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) rules: Rules,
    pub(crate) budgets: RateLimiter,
    /// Of previews: in no store.
    pub(crate) previews: RateLimiter,
    pub(crate) locks: OperationLocks,
    pub(crate) spending: SpendingLocks,
    /// Key generations on behalf of other operations: each is much work for the nodes.
    pub(crate) ceremonies: Semaphore,
    pub(crate) backoff: Backoff,
    pub(crate) last_probes: LastProbes,
    /// What nodes do not hold that they must.
    pub(crate) holders: Holders,
    pub(crate) tasks: TaskTracker,
}

impl Engine {
    /// An engine on these adapters.
    #[must_use]
    pub fn new(ports: Ports, rules: Rules) -> Self {
        let (budgets, previews) =
            (RateLimiter::new(rules.admission_rate), RateLimiter::new(rules.preview_rate));
        Self(Arc::new(Inner {
            ports,
            rules,
            budgets,
            previews,
            locks: OperationLocks::default(),
            spending: SpendingLocks::default(),
            ceremonies: Semaphore::new(PROVISIONING_MAX),
            backoff: Backoff::default(),
            last_probes: LastProbes::default(),
            holders: Holders::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Waits until nothing is in flight. New work is still taken: stop the callers first.
    pub async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// The deployment's rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// Runs work to its end even when the caller goes away: axum drops a handler whose client hung up.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.0.tasks.spawn(work).await.unwrap_or_else(|lost| Err(EngineError::Internal(lost.to_string())))
    }
}
