//! The shadow slot: a candidate bundle evaluates what the active bundle decided, afterwards and without effect.
//!
//! Its evaluations run on one thread of the lowest priority, behind a queue that never blocks: requests that do not fit are
//! dropped and counted. Replacing the candidate closes its queue, which ends its thread.

use crate::bundle::Bundle;
use crate::counters;
use crate::evaluator::Evaluator;
use crate::limits::SHADOW_QUEUE_MAX;
use crate::worker_pool::lower_priority;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{Decision, Facts, Input, Outcome, Request};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ShadowCounts;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread;

/// The candidate, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Shadow(RwLock<Option<Arc<Candidate>>>);

/// A bundle on trial.
pub(crate) struct Candidate {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) since_ms: EpochMs,
    evaluator: Arc<Evaluator>,
    counts: Arc<Mutex<ShadowCounts>>,
    queue: SyncSender<Box<Seen>>,
}

/// A request that the active bundle decided, with its outcome.
struct Seen {
    request: Input,
    facts: Facts,
    decided: Outcome,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Candidate({:?})", self.evaluator)
    }
}

impl Shadow {
    /// Puts a candidate in the slot, its counts at zero.
    pub(crate) fn put(
        &self,
        bundle: Arc<Bundle>,
        evaluator: Arc<Evaluator>,
        since_ms: EpochMs,
    ) -> io::Result<()> {
        let (queue, seen) = sync_channel(SHADOW_QUEUE_MAX);
        let counts: Arc<Mutex<ShadowCounts>> = Arc::default();
        let worker = ShadowWorker { evaluator: Arc::clone(&evaluator), counts: Arc::downgrade(&counts) };
        thread::Builder::new().name("policy-shadow".into()).spawn(move || worker.run(&seen))?;
        let candidate = Candidate { bundle, since_ms, evaluator, counts, queue };
        tracing::info!(bundle_hash = %candidate.hash(), "candidate bundle evaluates in the shadow slot");
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(candidate));
        Ok(())
    }

    /// Empties the slot.
    pub(crate) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn candidate(&self) -> Option<Arc<Candidate>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the candidate may read any fact whose name begins with `beginning`.
    pub(crate) fn may_read_facts(&self, beginning: &str) -> bool {
        self.candidate().is_some_and(|candidate| candidate.evaluator.may_read_facts(beginning))
    }

    /// Queues a decided request for the candidate, or counts it as dropped.
    pub(crate) fn offer(&self, request: &Request<'_>, facts: &Facts, decided: &Outcome) {
        let Some(candidate) = self.candidate() else { return };
        let request = request.to_input();
        let seen = Seen { request, facts: facts.clone(), decided: decided.clone() };
        if candidate.queue.try_send(Box::new(seen)).is_err() {
            lock(&candidate.counts).n_dropped += 1;
            counters::shadowed("dropped");
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
        *lock(&self.counts)
    }
}

/// The candidate's thread.
struct ShadowWorker {
    evaluator: Arc<Evaluator>,
    /// Dropped with the candidate: requests still in the queue are not evaluated then.
    counts: Weak<Mutex<ShadowCounts>>,
}

impl ShadowWorker {
    fn run(&self, seen: &Receiver<Box<Seen>>) {
        lower_priority();
        while let (Ok(seen), Some(counts)) = (seen.recv(), self.counts.upgrade()) {
            let request = seen.request.request();
            let theirs = self.evaluator.evaluate(&request, &seen.facts, self.evaluator.fuel_max()).outcome;
            count(&mut lock(&counts), &seen.decided, &theirs);
        }
    }
}

fn count(counts: &mut ShadowCounts, ours: &Outcome, theirs: &Outcome) {
    counts.n_evaluated += 1;
    counts.fuel_active = counts.fuel_active.saturating_add(ours.fuel_used);
    counts.fuel_candidate = counts.fuel_candidate.saturating_add(theirs.fuel_used);
    let (result, counter) = match (ours.decision, theirs.decision) {
        _ if ours.fault.is_some() || theirs.fault.is_some() => ("fault", &mut counts.n_faults),
        (Decision::Allow, Decision::Deny) => ("allow_to_deny", &mut counts.n_allow_to_deny),
        (Decision::Deny, Decision::Allow) => ("deny_to_allow", &mut counts.n_deny_to_allow),
        // The digest of decision, reasons, obligations and quorum.
        _ if ours.output_hash == theirs.output_hash => ("same", &mut counts.n_same),
        (Decision::Allow, Decision::Allow) | (Decision::Deny, Decision::Deny) => {
            ("otherwise_different", &mut counts.n_otherwise_different)
        }
    };
    *counter += 1;
    counters::shadowed(result);
}

fn lock(counts: &Mutex<ShadowCounts>) -> std::sync::MutexGuard<'_, ShadowCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
