//! The gateway's replicas: an engine and a fleet each, over one store.

use crate::network::{Network, Origin};
use crate::nodes::FarNodes;
use crate::parts::{OneBundle, ProcessClock, Shared, engine_rules};
use crate::ports::Ways;
use crate::reads::Reads;
use gateway_domain::approval::SigningRule;
use gateway_engine::{Engine, EngineError, Ports};
use gateway_fleet::Fleet;
use gateway_node::Peers;
use gateway_store::Store;
use operation_gateway::log_signer::LogSigner;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// How often the tasks of a replica get their turn after each message. They have nothing else to wait for, so few are enough.
const YIELDS: usize = 4;

/// The newest events whose receipts a replica shows to the nodes after its start, as the gateway does.
const NEWEST_EVENTS: u32 = 256;

/// The results of clients' requests: the request, and one word.
pub(crate) type Done = Arc<Mutex<Vec<(u64, String)>>>;

/// One process of the gateway.
pub(crate) struct Replica {
    pub(crate) engine: Engine,
    pub(crate) clock: ProcessClock,
    pub(crate) origin: Origin,
    fleet: Arc<Fleet<FarNodes>>,
    /// Runs its tasks. Dropping it drops them where they wait, as a crash does.
    runtime: Runtime,
}

/// What a replica finds when it starts.
pub(crate) struct Surroundings<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) network: &'a Network,
    pub(crate) store: &'a Arc<Store>,
    pub(crate) peers: &'a Arc<Peers>,
    pub(crate) signed_approvals: SigningRule,
}

impl Replica {
    pub(crate) fn start(around: &Surroundings<'_>, origin: Origin, clock: ProcessClock) -> Self {
        let Surroundings { shared, network, store, peers, signed_approvals } = around;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let ways = Ways { network: (*network).clone(), origin, store: Arc::clone(store) };
        let nodes = FarNodes::new(network, origin, Arc::clone(peers));
        let fleet = Arc::new(Fleet::of(nodes, Arc::new(OneBundle(shared.bundle.clone()))));
        let ports = Ports {
            commits: Arc::new(ways.clone()),
            reads: Arc::new(Reads(ways.clone())),
            lists: Arc::clone(store) as Arc<_>,
            decisions: Arc::clone(store) as Arc<_>,
            log: Arc::clone(store) as Arc<_>,
            webhooks: Arc::clone(store) as Arc<_>,
            checkpoints: Arc::new(LogSigner::new("simulation".parse().unwrap(), &[7; 32])),
            policy: shared.lifecycle.host(),
            policies: Arc::clone(&shared.lifecycle) as Arc<_>,
            authority: Arc::new(ways),
            nodes: Arc::clone(&fleet) as Arc<_>,
            clock: Arc::new(clock.clone()),
        };
        let engine = Engine::new(ports, engine_rules(signed_approvals.clone()));
        let replica = Self { engine, clock, origin, fleet, runtime };
        replica.note_newest_receipts(shared, store);
        replica
    }

    fn note_newest_receipts(&self, shared: &Shared, store: &Store) {
        use gateway_engine::ports::ReadOperations as _;
        let noting = async {
            for id in store.operations_of_newest_events(NEWEST_EVENTS).await.unwrap() {
                let events = store.operation_events(id).await.unwrap();
                self.fleet
                    .note_receipts(&events.into_iter().map(|chained| chained.event).collect::<Vec<_>>());
            }
        };
        shared.io.block_on(noting);
    }

    /// Starts a client's request.
    pub(crate) fn request<T>(
        &self,
        number: u64,
        done: &Done,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) where
        T: Send + 'static,
    {
        let done = Arc::clone(done);
        drop(self.runtime.spawn(async move {
            let result = work.await;
            done.lock().unwrap().push((number, word(&result).to_owned()));
        }));
    }

    /// Lets the replica's tasks run until they wait for messages.
    pub(crate) fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
        });
    }
}

fn word<T>(result: &Result<T, EngineError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(EngineError::OperationNotFound) => "operation_not_found",
        Err(EngineError::KeyNotFound(_)) => "key_not_found",
        Err(EngineError::KeyAmbiguous(_)) => "key_ambiguous",
        Err(EngineError::DecisionNotFound(_)) => "decision_not_found",
        Err(EngineError::KeyExists(_)) => "key_exists",
        Err(EngineError::NoChild(_)) => "no_child",
        Err(EngineError::Refused(_)) => "refused",
        Err(EngineError::PolicyRejected { .. }) => "policy_rejected",
        Err(EngineError::RateLimited { .. }) => "rate_limited",
        Err(EngineError::Invalid { .. }) => "invalid",
        Err(EngineError::NotInLog(_)) => "not_in_log",
        Err(EngineError::Conflict) => "conflict",
        Err(EngineError::Unavailable(_)) => "unavailable",
        Err(EngineError::Damaged(_)) => "damaged",
        Err(EngineError::Internal(_)) => "internal",
    }
}
