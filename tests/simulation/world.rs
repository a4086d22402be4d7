//! One run: the parts, the schedule, and the clients.

use crate::chance::Chance;
use crate::faults::{Counts, Fault};
use crate::judge::Judge;
use crate::machines::Machine;
use crate::network::{Body, Network, Origin};
use crate::orders::{Desk, Order, abort, approve, body};
use crate::parts::{APPROVERS, AuthorityProcess, N_NODES, ProcessClock, Shared};
use crate::replicas::{Done, Replica, Surroundings};
use crate::trace::Trace;
use gateway_domain::ids::OperationId;
use gateway_domain::operation::{Operation, Phase};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::ReadClock as _;
use gateway_engine::{Execute, Publish};
use gateway_node::Peers;
use gateway_store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The gateway's replicas.
pub(crate) const N_REPLICAS: usize = 2;

/// The most requests of clients at a time.
const REQUESTS_MAX: usize = 6;

/// Milliseconds of real time for which an evaluation of the policy is waited for.
const PATIENCE_MS: u32 = 5_000;

/// Turns without an end of the orders: a run that takes longer has a deadlock.
const TURNS_MAX: u64 = 400_000;

/// One messages of this many meets a fault; the seed chooses. 0 is calm.
const WEATHERS: [usize; 5] = [0, 400, 150, 60, 25];

/// The whole deployment.
pub(crate) struct World<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) seed: u64,
    pub(crate) chance: Chance,
    pub(crate) turn: u64,
    pub(crate) network: Network,
    pub(crate) store: Arc<Store>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) authority: Arc<AuthorityProcess>,
    /// The turn until which the authority does not answer.
    pub(crate) authority_down_until: u64,
    /// The turn until which this replica and this node do not reach each other.
    pub(crate) partitions: BTreeMap<(usize, u16), u64>,
    pub(crate) is_signed: bool,
    /// One of this many messages meets a fault.
    pub(crate) weather: usize,
    pub(crate) orders: BTreeMap<OperationId, Order>,
    /// The order in which clients made their orders.
    pub(crate) placed: Vec<OperationId>,
    pub(crate) desk: Desk,
    /// Operations without a lost node, whose share a recovery makes again.
    pub(crate) recovered: BTreeSet<OperationId>,
    pub(crate) judge: Judge,
    pub(crate) trace: Trace,
    /// Requests of clients, with their replica and operation.
    pub(crate) requests: BTreeMap<u64, (usize, Option<OperationId>)>,
    n_requests: u64,
    done: Done,
    /// The faults so far, with their points and operations.
    pub(crate) met: Vec<(Fault, &'static str, Option<OperationId>)>,
    pub(crate) counts: Counts,
    pub(crate) folder: PathBuf,
    pub(crate) clock: ProcessClock,
}

impl<'a> World<'a> {
    pub(crate) fn start(shared: &'a Shared, seed: u64) -> Self {
        let folder = shared.folder.path().join(format!("run-{seed}"));
        let _leftover = std::fs::remove_dir_all(&folder);
        let clock = ProcessClock::start();
        let mut chance = Chance::new(seed);
        let is_signed = chance.one_in(4);
        let weather = *chance.pick(&WEATHERS);
        let path = folder.join("gateway.db");
        let store = Arc::new(shared.io.block_on(Store::open(path.to_str().unwrap())).unwrap());
        let peers = Arc::<Peers>::default();
        let machines = (0..N_NODES).map(|index| {
            Machine::start(shared, &folder, index, is_signed, &peers, clock.of_another_process())
        });
        let machines = machines.collect();
        let rule = shared.signing_rule(is_signed);
        let authority = Arc::new(AuthorityProcess::new(shared, rule, clock.of_another_process()));
        let mut world = Self {
            shared,
            seed,
            chance,
            turn: 0,
            network: Network::default(),
            store,
            machines,
            peers,
            replicas: Vec::new(),
            authority,
            authority_down_until: 0,
            partitions: BTreeMap::new(),
            is_signed,
            weather,
            orders: BTreeMap::new(),
            placed: Vec::new(),
            desk: Desk::new(),
            recovered: BTreeSet::new(),
            judge: Judge::default(),
            trace: Trace::new(),
            requests: BTreeMap::new(),
            n_requests: 0,
            done: Done::default(),
            met: Vec::new(),
            counts: Counts::default(),
            folder,
            clock,
        };
        for replica in 0..N_REPLICAS {
            let origin = Origin { replica, incarnation: 0 };
            let clock = world.clock.of_another_process();
            let replica = world.start_replica(origin, clock);
            world.replicas.push(replica);
        }
        world
    }

    fn start_replica(&self, origin: Origin, clock: ProcessClock) -> Replica {
        let around = Surroundings {
            shared: self.shared,
            network: &self.network,
            store: &self.store,
            peers: &self.peers,
            signed_approvals: self.shared.signing_rule(self.is_signed),
        };
        Replica::start(&around, origin, clock)
    }

    /// Ends a replica's process and starts it again. Requests that it sent may still arrive.
    pub(crate) fn crash_replica(&mut self, replica: usize) {
        let Origin { incarnation, .. } = self.replicas[replica].origin;
        let chance = &mut self.chance;
        self.network.drop_if(|message| {
            if message.origin.replica != replica {
                return false;
            }
            message.is_late = true;
            matches!(message.body, Body::Answer(_)) || chance.one_in(2)
        });
        self.requests.retain(|_, (of, _)| *of != replica);
        let origin = Origin { replica, incarnation: incarnation + 1 };
        let started = self.start_replica(origin, self.replicas[replica].clock.clone());
        self.replicas[replica] = started;
        self.trace.line(format!("{} replica {replica} restarts", self.turn));
    }

    /// Makes turns until clients have made this many orders and nothing is in flight.
    pub(crate) fn work(&mut self, n_orders: usize) {
        while self.placed.len() < n_orders || !self.requests.is_empty() {
            self.turn += 1;
            self.clock.advance(1 + u64::try_from(self.chance.below(4)).unwrap());
            self.upset();
            if self.requests.len() < REQUESTS_MAX && self.placed.len() < n_orders && self.chance.one_in(6) {
                self.client(n_orders);
            }
            if !self.deliver_next() && self.requests.is_empty() {
                self.client(n_orders);
            }
            if self.turn > TURNS_MAX {
                self.judge.violation("deadlock", format!("{} requests have no end", self.requests.len()));
                return;
            }
        }
    }

    /// Delivers the next message, or waits for the next delayed one. Returns false if no message is left.
    pub(crate) fn deliver_next(&mut self) -> bool {
        let chance = &mut self.chance;
        if let Some(message) = self.network.take(self.turn, |n| chance.below(n)) {
            self.deliver(message);
        } else if let Some(due) = self.network.next_due() {
            self.turn = self.turn.max(due);
        } else {
            return self.wait_for_threads();
        }
        true
    }

    /// Waits for an evaluation of the policy that a busy machine interrupted: it is repeated by a thread of its own, in real time.
    /// Returns false if no request goes on.
    fn wait_for_threads(&mut self) -> bool {
        for _ in 0..PATIENCE_MS {
            if self.requests.is_empty() {
                return false;
            }
            let n_requests = self.requests.len();
            for replica in &self.replicas {
                replica.settle();
            }
            self.collect();
            if self.requests.len() < n_requests || self.network.next_due().is_some() {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Takes the results of clients' requests.
    pub(crate) fn collect(&mut self) {
        let done = std::mem::take(&mut *self.done.lock().unwrap());
        for (number, word) in done {
            self.requests.remove(&number);
            self.trace.line(format!("{} request {number} {word}", self.turn));
            if word == "damaged" || word == "internal" {
                self.judge.violation("error", format!("request {number} ended with `{word}`"));
            }
        }
    }

    /// A client does something: orders, repeats an order, or moves an operation on.
    fn client(&mut self, n_orders: usize) {
        let replica = self.chance.below(N_REPLICAS);
        let mut open = self.open_operations();
        // Mostly those that no request is driving, and sometimes another one, at any replica.
        if !self.chance.one_in(12) {
            let driven: BTreeSet<_> = self.requests.values().filter_map(|(_, id)| *id).collect();
            open.retain(|id| !driven.contains(id));
        }
        let choice = self.chance.below(40);
        if (choice < 6 || open.is_empty()) && self.placed.len() < n_orders {
            let order = self.desk.order(&mut self.chance, &self.judge.keys);
            self.place(order, replica);
        } else if choice == 6 && !self.placed.is_empty() {
            let n_recent = self.placed.len().min(8);
            let recent = &self.placed[self.placed.len() - n_recent..];
            let id = *self.chance.pick(recent);
            self.met.push((Fault::ClientRetry, "submit", Some(id)));
            self.submit(id, replica);
        } else if choice == 7 || open.is_empty() {
            self.reconcile(replica);
        } else {
            let n_oldest = open.len().min(8);
            let id = *self.chance.pick(&open[..n_oldest]);
            self.advance(id, replica);
        }
    }

    /// The orders that are not at rest for good, oldest first.
    pub(crate) fn open_operations(&self) -> Vec<OperationId> {
        let is_open =
            |id: &&OperationId| self.judge.operations.get(id).is_some_and(|known| !known.is_at_rest());
        self.placed.iter().filter(is_open).copied().collect()
    }

    pub(crate) fn place(&mut self, order: Order, replica: usize) -> OperationId {
        let id = order.id();
        self.placed.push(id);
        self.orders.insert(id, order);
        self.submit(id, replica);
        id
    }

    fn submit(&mut self, id: OperationId, replica: usize) {
        let order = &self.orders[&id];
        let (mut submit, key_ref) = (order.submit.clone(), order.key_ref.clone());
        if self.chance.one_in(16) {
            submit.body_digest = body(order.number, 1);
        }
        let what = format!("submit op{} {:?}", order.number, submit.intent.operation_type());
        let engine = self.replicas[replica].engine.clone();
        self.request(replica, Some(id), &what, async move {
            match key_ref {
                Some(key_ref) => engine.submit_on_key(submit, key_ref).await,
                None => engine.submit(submit).await,
            }
        });
    }

    pub(crate) fn reconcile(&mut self, replica: usize) {
        let engine = self.replicas[replica].engine.clone();
        self.request(replica, None, "reconcile", async move { Ok(engine.reconcile().await) });
    }

    /// The next request for this operation; sometimes one that is not due.
    pub(crate) fn advance(&mut self, id: OperationId, replica: usize) {
        let operation = self.judge.operations[&id].operation.clone();
        match operation.phase {
            Phase::PendingApproval => self.approve(&operation, replica),
            Phase::Admitted if self.orders[&id].is_abandoned => {}
            Phase::Admitted | Phase::Deciding | Phase::Admitting => self.execute(id, replica),
            Phase::Executed => self.publish(id, replica),
            Phase::Submitted
            | Phase::Postponed { .. }
            | Phase::IssuingReceipt
            | Phase::ReceiptMaterialized
            | Phase::Executing { .. }
            | Phase::CommittingEpoch { .. }
            | Phase::Publishing
            | Phase::Discarding
            | Phase::DiscardingRest { .. } => match self.chance.below(4) {
                0 => self.execute(id, replica),
                1 => self.publish(id, replica),
                _ => self.reconcile(replica),
            },
            Phase::Published | Phase::Failed => {}
        }
    }

    fn approve(&mut self, operation: &Operation, replica: usize) {
        let order = self.orders.get_mut(&operation.id).unwrap();
        // Every second one that is abandoned waits for its execution instead.
        if order.is_abandoned && order.number.is_multiple_of(2) && !order.approved.is_empty() {
            return;
        }
        let approved: BTreeSet<_> = operation.approvals.iter().map(|by| by.subject_id.as_str()).collect();
        let missing: Vec<&'static str> =
            APPROVERS.into_iter().filter(|name| !approved.contains(name)).collect();
        let who = if self.chance.one_in(10) { *self.chance.pick(&APPROVERS) } else { missing[0] };
        order.approved.insert(who);
        let what = format!("approve op{} {who}", order.number);
        let target = order.target(operation.id);
        let approval = approve(operation, who, self.clock.now(), self.is_signed);
        let engine = self.replicas[replica].engine.clone();
        self.request(
            replica,
            Some(operation.id),
            &what,
            async move { engine.approve(target, approval).await },
        );
    }

    fn execute(&mut self, id: OperationId, replica: usize) {
        let order = &self.orders[&id];
        let (what, target) = (format!("execute op{}", order.number), order.target(id));
        let engine = self.replicas[replica].engine.clone();
        self.request(
            replica,
            Some(id),
            &what,
            async move { engine.execute(target, Execute::default()).await },
        );
    }

    fn publish(&mut self, id: OperationId, replica: usize) {
        let order = &self.orders[&id];
        let (what, target) = (format!("publish op{}", order.number), order.target(id));
        let publish = Publish {
            scope: "signature".to_owned(),
            expected_result_ref: None,
            requested_at_ms: 0,
            requester: None,
        };
        let engine = self.replicas[replica].engine.clone();
        self.request(replica, Some(id), &what, async move { engine.publish(target, publish).await });
    }

    /// An approver ends a change of a key, or declares receivers lost.
    pub(crate) fn abort(&mut self, id: OperationId, lost: BTreeSet<ParticipantIndex>, replica: usize) {
        let order = &self.orders[&id];
        let (what, target) = (format!("abort op{} without {lost:?}", order.number), order.target(id));
        let engine = self.replicas[replica].engine.clone();
        let operation = &self.judge.operations[&id].operation;
        let abort = abort(operation, APPROVERS[0], self.clock.now(), self.is_signed, lost);
        self.request(replica, Some(id), &what, async move { engine.abort(target, abort).await });
    }

    fn request<T: Send + 'static>(
        &mut self,
        replica: usize,
        id: Option<OperationId>,
        what: &str,
        work: impl Future<Output = Result<T, gateway_engine::EngineError>> + Send + 'static,
    ) {
        let number = self.n_requests;
        self.n_requests += 1;
        self.requests.insert(number, (replica, id));
        self.trace.line(format!("{} request {number} to replica {replica}: {what}", self.turn));
        self.replicas[replica].request(number, &self.done, work);
        self.replicas[replica].settle();
        self.collect();
    }
}
