//! Shadow evaluation: a candidate bundle evaluates each request after the active bundle, without effect. The results are
//! compared and counted, and the latest that differ are kept.
//!
//! The evaluations run on one thread of the lowest priority. If its queue is full, requests are dropped and counted. Replacing
//! the candidate closes its queue, which ends its thread.

use crate::counters;
use crate::worker_pool::lower_priority;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::policy::{Decision, Facts, Input, Moment, Outcome, Request};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{ShadowCounts, ShadowDifference, ShadowResult};
use gateway_policy::limits::{SHADOW_DIFFERENCES_MAX, SHADOW_QUEUE_MAX};
use gateway_policy::{Bundle, Evaluator};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

/// The candidate, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Shadow(RwLock<Option<Arc<Candidate>>>);

/// A candidate bundle, with its queue and comparisons.
pub(crate) struct Candidate {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) since_ms: EpochMs,
    evaluator: Arc<Evaluator>,
    compared: Arc<Mutex<Compared>>,
    queue: SyncSender<Box<Decided>>,
}

/// How the candidate's outcomes compared with those of the active bundle.
#[derive(Default)]
struct Compared {
    counts: ShadowCounts,
    /// The latest differences, newest first.
    differences: VecDeque<Arc<ShadowDifference>>,
}

/// A request, with the outcome of the active bundle.
struct Decided {
    at_ms: Option<EpochMs>,
    operation_id: Option<OperationId>,
    request: Input,
    facts: Facts,
    outcome: Outcome,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Candidate({:?})", self.evaluator)
    }
}

impl Shadow {
    /// Replaces the candidate. Its counts start at zero, and its differences at none.
    pub(crate) fn put(
        &self,
        bundle: Arc<Bundle>,
        evaluator: Arc<Evaluator>,
        since_ms: EpochMs,
    ) -> io::Result<()> {
        let (queue, requests) = sync_channel(SHADOW_QUEUE_MAX);
        let compared: Arc<Mutex<Compared>> = Arc::default();
        let worker = ShadowWorker { evaluator: Arc::clone(&evaluator), compared: Arc::downgrade(&compared) };
        thread::Builder::new().name("policy-shadow".into()).spawn(move || worker.run(&requests))?;
        let candidate = Candidate { bundle, since_ms, evaluator, compared, queue };
        tracing::info!(bundle_hash = %candidate.hash(), "candidate bundle loaded for shadow evaluation");
        *self.0.write() = Some(Arc::new(candidate));
        Ok(())
    }

    /// Removes the candidate.
    pub(crate) fn clear(&self) {
        *self.0.write() = None;
    }

    pub(crate) fn candidate(&self) -> Option<Arc<Candidate>> {
        self.0.read().clone()
    }

    /// Whether the candidate may read a fact whose name begins with `prefix`.
    pub(crate) fn may_read_facts(&self, prefix: &str) -> bool {
        self.candidate().is_some_and(|candidate| candidate.evaluator.may_read_facts(prefix))
    }

    /// The currencies in which the candidate may read payments over time.
    pub(crate) fn currencies(&self) -> BTreeSet<String> {
        self.candidate().map(|candidate| candidate.evaluator.currencies()).unwrap_or_default()
    }

    /// Queues a request for the candidate with the outcome of the active bundle. If the queue is full, counts it as dropped.
    pub(crate) fn enqueue(
        &self,
        operation_id: Option<OperationId>,
        at_ms: Option<EpochMs>,
        request: &Request<'_>,
        facts: &Facts,
        outcome: &Outcome,
    ) {
        let Some(candidate) = self.candidate() else { return };
        let (request, facts, outcome) = (request.to_input(), facts.clone(), outcome.clone());
        let decided = Decided { at_ms, operation_id, request, facts, outcome };
        if candidate.queue.try_send(Box::new(decided)).is_err() {
            candidate.compared.lock().counts.n_dropped += 1;
            counters::count_shadow("dropped");
        }
    }
}

impl Candidate {
    pub(crate) fn hash(&self) -> Hex32 {
        self.evaluator.bundle_hash()
    }

    pub(crate) fn evaluator(&self) -> Arc<Evaluator> {
        Arc::clone(&self.evaluator)
    }

    pub(crate) fn counts(&self) -> ShadowCounts {
        self.compared.lock().counts
    }

    pub(crate) fn differences(&self) -> Vec<Arc<ShadowDifference>> {
        self.compared.lock().differences.iter().cloned().collect()
    }
}

/// What the candidate's thread needs.
struct ShadowWorker {
    evaluator: Arc<Evaluator>,
    /// Gone after the candidate was dropped: then requests that are still in the queue are not evaluated.
    compared: Weak<Mutex<Compared>>,
}

impl ShadowWorker {
    fn run(&self, requests: &Receiver<Box<Decided>>) {
        lower_priority();
        while let (Ok(decided), Some(compared)) = (requests.recv(), self.compared.upgrade()) {
            let fuel = self.evaluator.fuel_max();
            let candidate = self.evaluator.evaluate(&decided.request.request(), &decided.facts, fuel);
            compared.lock().add(*decided, candidate);
        }
    }
}

impl Compared {
    /// Counts how the candidate's outcome compares with that of the active bundle, and keeps the decision if they differ.
    fn add(&mut self, decided: Decided, after: Outcome) {
        let Decided { at_ms, operation_id, request: input, outcome: before, .. } = decided;
        let (result, counts) = (compare(&before, &after), &mut self.counts);
        counts.n_evaluated += 1;
        counts.fuel_active = counts.fuel_active.saturating_add(before.fuel_used);
        counts.fuel_candidate = counts.fuel_candidate.saturating_add(after.fuel_used);
        *match result {
            ShadowResult::Same => &mut counts.n_same,
            ShadowResult::AllowToDeny => &mut counts.n_allow_to_deny,
            ShadowResult::DenyToAllow => &mut counts.n_deny_to_allow,
            ShadowResult::OtherwiseDifferent => &mut counts.n_otherwise_different,
            ShadowResult::Fault => &mut counts.n_faults,
        } += 1;
        counters::count_shadow(result.as_str());
        if result != ShadowResult::Same {
            self.keep(ShadowDifference { at_ms, operation_id, input, result, before, after });
        }
    }

    /// Keeps a difference. If there are too many, drops the oldest preview, which decided nothing, or else the oldest decision.
    fn keep(&mut self, difference: ShadowDifference) {
        if self.differences.len() >= SHADOW_DIFFERENCES_MAX {
            let is_preview = |kept: &Arc<ShadowDifference>| kept.input.moment == Moment::Preview;
            let oldest = self.differences.iter().rposition(is_preview);
            self.differences.remove(oldest.unwrap_or(SHADOW_DIFFERENCES_MAX - 1));
        }
        self.differences.push_front(Arc::new(difference));
    }
}

fn compare(active: &Outcome, candidate: &Outcome) -> ShadowResult {
    match (active.decision, candidate.decision) {
        _ if active.fault.is_some() || candidate.fault.is_some() => ShadowResult::Fault,
        (Decision::Allow, Decision::Deny) => ShadowResult::AllowToDeny,
        (Decision::Deny, Decision::Allow) => ShadowResult::DenyToAllow,
        // The digest of decision, reasons, obligations and quorum.
        _ if active.output_hash == candidate.output_hash => ShadowResult::Same,
        (Decision::Allow, Decision::Allow) | (Decision::Deny, Decision::Deny) => {
            ShadowResult::OtherwiseDifferent
        }
    }
}
