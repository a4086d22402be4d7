//! The active bundle behind the engine's port.

use crate::evaluator::{Evaluation, Evaluator};
use crate::fault::EvaluationFault;
use crate::shadow::Shadow;
use crate::worker_pool::{Busy, Lane, PerLane, WorkerPool};
use crate::{counters, outcome};
use async_trait::async_trait;
use gateway_domain::policy::{Facts, Outcome, Request};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::EvaluatePolicy;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

/// Evaluates with the active bundle, which is replaced in one step.
#[derive(Debug)]
pub struct PolicyHost {
    active: RwLock<Option<Active>>,
    pools: PerLane<WorkerPool>,
    pub(crate) shadow: Shadow,
}

/// The active bundle, and whether it is still confirmed.
#[derive(Clone, Debug)]
struct Active {
    evaluator: Arc<Evaluator>,
    /// Why every evaluation is a DENY for now.
    unconfirmed: Option<EvaluationFault>,
}

impl Default for PolicyHost {
    fn default() -> Self {
        Self::new()
    }
}

impl PolicyHost {
    /// Without a bundle: every evaluation is a DENY with the fault `no_active_bundle`.
    #[must_use]
    pub fn new() -> Self {
        Self { active: RwLock::new(None), pools: PerLane::default(), shadow: Shadow::default() }
    }

    /// Makes a loaded bundle the active one. Evaluations under way end with the bundle they began with.
    pub fn activate(&self, evaluator: impl Into<Arc<Evaluator>>) {
        let evaluator = evaluator.into();
        tracing::info!(bundle_id = evaluator.bundle_id(), bundle_hash = %evaluator.bundle_hash(), "policy bundle active");
        *self.active.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Active { evaluator, unconfirmed: None });
    }

    /// Sets why the active bundle is not confirmed; none confirms it. While it is not, every evaluation is a DENY with this
    /// fault: a revoked bundle is not replaced by the one before it.
    pub fn confirm_active(&self, unconfirmed: Option<EvaluationFault>) {
        if let Some(active) = &mut *self.active.write().unwrap_or_else(PoisonError::into_inner) {
            active.unconfirmed = unconfirmed;
        }
    }

    /// The active bundle, if any.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Evaluator>> {
        self.slot().map(|active| active.evaluator)
    }

    /// The fault that every evaluation has at `now`, if any.
    #[must_use]
    pub fn fault(&self, now: EpochMs) -> Option<EvaluationFault> {
        match self.slot() {
            Some(active) => active.fault(Some(now)),
            None => Some(EvaluationFault::NoActiveBundle),
        }
    }

    /// Evaluates a request with the active bundle.
    ///
    /// The first attempt runs on this thread with limits of about 100 us, because handing 10 us of work to another thread
    /// would cost more than the work. When the limits do not suffice, the evaluation starts over on the worker pool with
    /// the manifest's limits; an evaluation is pure, so the first attempt has no effect. While a bundle is known to need
    /// more, the first attempt is skipped, and a bundle of the WASI world always runs on the pool. Previews do not
    /// count for decisions here: their callers choose freely what to ask.
    pub async fn evaluate_with_active(&self, request: &Request<'_>, facts: &Facts) -> Evaluation {
        let Some(active) = self.slot() else { return outcome::without_bundle(request) };
        let evaluator = Arc::clone(&active.evaluator);
        if let Some(fault) = active.fault(instant(facts)) {
            return outcome::not_evaluated(request, evaluator.bundle_id(), evaluator.bundle_hash(), fault);
        }
        let is_heavy = evaluator.heavy(Lane::of(request.moment)).load(Ordering::Relaxed);
        let first = if is_heavy { None } else { evaluator.evaluate_inline(request, facts) };
        match first {
            Some(raw) => evaluator.complete(request, raw),
            None => self.evaluate_on_pool(evaluator, request, facts.clone()).await,
        }
    }

    async fn evaluate_on_pool(
        &self,
        evaluator: Arc<Evaluator>,
        request: &Request<'_>,
        facts: Facts,
    ) -> Evaluation {
        let (input, lane) = (request.to_input(), Lane::of(request.moment));
        let raw = self.pools.get(lane).run(move || {
            let request = input.request();
            let raw = evaluator.evaluate_raw(&request, &facts, evaluator.fuel_max());
            evaluator.heavy(lane).store(raw.is_heavy(), Ordering::Relaxed);
            evaluator.complete(&request, raw)
        });
        match raw.await {
            Ok(Some(evaluation)) => evaluation,
            Ok(None) => outcome::failed(request, EvaluationFault::Panicked),
            Err(Busy) => outcome::failed(request, EvaluationFault::PoolExhausted),
        }
    }

    /// A copy of the active slot, so that one evaluation uses one bundle from beginning to end.
    fn slot(&self) -> Option<Active> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Active {
    fn fault(&self, now: Option<EpochMs>) -> Option<EvaluationFault> {
        self.unconfirmed.or((!self.evaluator.is_valid_at(now)).then_some(EvaluationFault::ExpiredBundle))
    }
}

/// The instant that the evaluation is for. Validity is checked at the time that the policy reads, so that a replay gives the
/// same outcome.
fn instant(facts: &Facts) -> Option<EpochMs> {
    facts.get("time.now_ms")?.parse().ok().map(EpochMs)
}

#[async_trait]
impl EvaluatePolicy for PolicyHost {
    async fn evaluate(&self, request: Request<'_>, facts: &Facts) -> Outcome {
        let Evaluation { outcome, fault } = self.evaluate_with_active(&request, facts).await;
        if let Some(fault) = fault {
            tracing::error!(bundle_id = outcome.bundle_id, kind = fault.kind(), "policy fault");
        }
        counters::evaluated(request.moment, outcome.decision, fault);
        self.shadow.offer(&request, facts, &outcome);
        outcome
    }

    fn may_read_facts(&self, beginning: &str) -> bool {
        // The candidate needs the facts that it would get if it were active.
        self.active().is_some_and(|evaluator| evaluator.may_read_facts(beginning))
            || self.shadow.may_read_facts(beginning)
    }
}
