//! Shadow evaluation: a candidate bundle evaluates each request after the active bundle, without effect. The results are
//! compared and counted.
//!
//! The evaluations run on one thread of the lowest priority. If its queue is full, requests are dropped and counted. Replacing
//! the candidate closes its queue, which ends its thread.

use crate::counters;
use crate::worker_pool::lower_priority;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{Decision, Facts, Input, Outcome, Request};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ShadowCounts;
use gateway_policy::limits::SHADOW_QUEUE_MAX;
use gateway_policy::{Bundle, Evaluator};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

/// The candidate, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Shadow(RwLock<Option<Arc<Candidate>>>);

/// A candidate bundle, with its queue and counts.
pub(crate) struct Candidate {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) since_ms: EpochMs,
    evaluator: Arc<Evaluator>,
    counts: Arc<Mutex<ShadowCounts>>,
    queue: SyncSender<Box<Decided>>,
}

/// A request, with the outcome of the active bundle.
struct Decided {
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
    /// Replaces the candidate. Its counts start at zero.
    pub(crate) fn put(
        &self,
        bundle: Arc<Bundle>,
        evaluator: Arc<Evaluator>,
        since_ms: EpochMs,
    ) -> io::Result<()> {
        let (queue, requests) = sync_channel(SHADOW_QUEUE_MAX);
        let counts: Arc<Mutex<ShadowCounts>> = Arc::default();
        let worker = ShadowWorker { evaluator: Arc::clone(&evaluator), counts: Arc::downgrade(&counts) };
        thread::Builder::new().name("policy-shadow".into()).spawn(move || worker.run(&requests))?;
        let candidate = Candidate { bundle, since_ms, evaluator, counts, queue };
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

    /// Queues a request for the candidate with the outcome of the active bundle. If the queue is full, counts it as dropped.
    pub(crate) fn enqueue(&self, request: &Request<'_>, facts: &Facts, outcome: &Outcome) {
        let Some(candidate) = self.candidate() else { return };
        let decided = Decided { request: request.to_input(), facts: facts.clone(), outcome: outcome.clone() };
        if candidate.queue.try_send(Box::new(decided)).is_err() {
            candidate.counts.lock().n_dropped += 1;
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
        *self.counts.lock()
    }
}

/// What the candidate's thread needs.
struct ShadowWorker {
    evaluator: Arc<Evaluator>,
    /// Gone after the candidate was dropped: then requests that are still in the queue are not evaluated.
    counts: Weak<Mutex<ShadowCounts>>,
}

impl ShadowWorker {
    fn run(&self, requests: &Receiver<Box<Decided>>) {
        lower_priority();
        while let (Ok(decided), Some(counts)) = (requests.recv(), self.counts.upgrade()) {
            let (request, fuel) = (decided.request.request(), self.evaluator.fuel_max());
            let candidate = self.evaluator.evaluate(&request, &decided.facts, fuel);
            count(&mut counts.lock(), &decided.outcome, &candidate);
        }
    }
}

/// Counts how the candidate's outcome compares with that of the active bundle.
fn count(counts: &mut ShadowCounts, active: &Outcome, candidate: &Outcome) {
    counts.n_evaluated += 1;
    counts.fuel_active = counts.fuel_active.saturating_add(active.fuel_used);
    counts.fuel_candidate = counts.fuel_candidate.saturating_add(candidate.fuel_used);
    let (result, counter) = match (active.decision, candidate.decision) {
        _ if active.fault.is_some() || candidate.fault.is_some() => ("fault", &mut counts.n_faults),
        (Decision::Allow, Decision::Deny) => ("allow_to_deny", &mut counts.n_allow_to_deny),
        (Decision::Deny, Decision::Allow) => ("deny_to_allow", &mut counts.n_deny_to_allow),
        // The digest of decision, reasons, obligations and quorum.
        _ if active.output_hash == candidate.output_hash => ("same", &mut counts.n_same),
        (Decision::Allow, Decision::Allow) | (Decision::Deny, Decision::Deny) => {
            ("otherwise_different", &mut counts.n_otherwise_different)
        }
    };
    *counter += 1;
    counters::count_shadow(result);
}
