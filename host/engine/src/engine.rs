//! The engine: its ports, its rules and its state. The use cases are in files of their own.

use crate::error::{EngineError, Unavailable};
use crate::feed::Feed;
use crate::holders::HolderCheck;
use crate::locks::Locks;
use crate::ports::{KeyQuorum, Ports};
use crate::rate_limit::{RateLimit, RateLimiter};
use gateway_domain::approval::SigningRule;
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::log::SignedCheckpoint;
use gateway_domain::policy::facts;
use gateway_domain::policy::spending::Party;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Development keys that are generated at the same time: each generation is much work for the nodes.
const DEVELOPMENT_KEYS_MAX: usize = 2;

/// The deployment's settings, as far as the engine needs them.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The settings that policies may read as facts.
    pub policy: facts::Rules,
    /// Whether approvals must be signed by their approvers.
    pub signed_approvals: SigningRule,
    /// Milliseconds from submission until missing approvals end an operation.
    pub approval_ttl_ms: u64,
    /// Milliseconds for which an admission decision is valid.
    pub admission_ttl_ms: u64,
    /// Development only: creates a key for a payment that names none, and a key without its approvals when an approved
    /// signature needs it.
    pub auto_provision_keys: bool,
    /// Whether a signature is refused at submission if its epoch fence does not hold; otherwise the answer has a warning.
    pub refuses_stale_fences: bool,
    /// Operations that nodes have admitted and the store has lost, as the operator said after a restore of an older copy.
    pub lost_operations: BTreeSet<OperationId>,
    /// The number of runtime nodes; participants are numbered from 0.
    pub n_nodes: u16,
    /// The rate limit of a client's submissions.
    pub admission_rate: RateLimit,
    /// The rate limit of a client's previews, counted by this process alone.
    pub preview_rate: RateLimit,
    /// Previews kept on record; 0 keeps none.
    pub preview_records_max: u32,
    /// How long a request to execute or publish waits before it is answered with the present state. The work continues.
    pub answer_within: Duration,
    /// How long events wait for the outcome of an effect that they may be committed with.
    pub recorded_within: Duration,
}

/// The last answer of a readiness probe, and when it was received.
pub(crate) type LastProbe<T> = Mutex<Option<(EpochMs, Result<T, Unavailable>)>>;

/// The use cases. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) rules: Rules,
    /// Rate limits of submissions; the store has the quotas.
    pub(crate) submissions: RateLimiter,
    /// Rate limits of previews; the quotas are in memory only.
    pub(crate) previews: RateLimiter,
    pub(crate) locks: Locks<OperationId>,
    /// Locks of the parties whose payments are summed, held while the admission of a payment is decided, see `policy`.
    pub(crate) parties: Locks<(Party, Tenant, String)>,
    pub(crate) development_keys: Semaphore,
    pub(crate) last_write: LastProbe<()>,
    pub(crate) last_key_quorums: LastProbe<Vec<KeyQuorum>>,
    /// Shares that nodes should hold and do not.
    pub(crate) holders: HolderCheck,
    /// The newest decision of each node, which the store may lack.
    pub(crate) compared: parking_lot::Mutex<BTreeMap<ParticipantIndex, Compared>>,
    /// What is wrong with this replica.
    pub(crate) replica_fault: parking_lot::Mutex<Option<ReplicaFault>>,
    pub(crate) witnessed: parking_lot::Mutex<Witnessed>,
    /// What happens, for callers that wait.
    pub(crate) feed: Feed,
    pub(crate) tasks: TaskTracker,
}

/// Why this replica is not ready, as a line for an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaFault {
    /// It would make other records than the others, so it writes nothing.
    #[error("{0}; this replica writes nothing")]
    MustNotWrite(String),
    /// It decides otherwise than the others, or at other times.
    #[error("{0}")]
    Differs(String),
}

/// A decision that a node admitted, as last compared with the store.
pub(crate) struct Compared {
    pub(crate) envelope: Envelope,
    /// The decision's operation, if the store lacks the decision.
    pub(crate) lost: Option<OperationId>,
}

/// What is known of the log's witnesses.
#[derive(Default)]
pub(crate) struct Witnessed {
    pub(crate) kept: Option<KeptCheckpoint>,
    /// Why nothing may be written.
    pub(crate) fault: Option<Unavailable>,
    pub(crate) report: Option<String>,
}

/// A checkpoint that is kept outside the store.
#[derive(Clone, Debug)]
pub struct KeptCheckpoint {
    /// The checkpoint, signed by the log's key.
    pub checkpoint: SignedCheckpoint,
    /// Whether a quorum of witnesses cosigned it. Otherwise it is only compared with the log, and not shown.
    pub is_cosigned: bool,
}

impl Engine {
    /// An engine on these adapters.
    #[must_use]
    pub fn new(ports: Ports, rules: Rules) -> Self {
        Self(Arc::new(Inner {
            ports,
            submissions: RateLimiter::new(rules.admission_rate),
            previews: RateLimiter::new(rules.preview_rate),
            rules,
            locks: Locks::default(),
            parties: Locks::default(),
            development_keys: Semaphore::new(DEVELOPMENT_KEYS_MAX),
            last_write: Mutex::default(),
            last_key_quorums: Mutex::default(),
            holders: HolderCheck::default(),
            compared: parking_lot::Mutex::default(),
            replica_fault: parking_lot::Mutex::default(),
            witnessed: parking_lot::Mutex::default(),
            feed: Feed::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Waits until no use case is running. New ones are still accepted: stop the callers first.
    pub async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// The deployment's rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// The gateway's clock.
    #[must_use]
    pub fn now(&self) -> EpochMs {
        self.0.ports.clock.now()
    }

    /// Runs work to its end even when the caller goes away: axum drops a handler whose client hung up.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.0
            .tasks
            .spawn(work.in_current_span())
            .await
            .unwrap_or_else(|error| Err(EngineError::Internal(error.to_string())))
    }
}
