//! The active bundle behind the engine's port.

use crate::apart::{Apart, Busy, EachLane, Lane};
use crate::evaluator::{Evaluation, Evaluator};
use crate::fault::EvaluationFault;
use crate::shadow::Shadow;
use crate::{counters, outcome};
use async_trait::async_trait;
use gateway_domain::policy::{Facts, Outcome, Request};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::EvaluatePolicy;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

/// Evaluates with whichever bundle is active, and swaps it in one step.
#[derive(Debug)]
pub struct PolicyHost {
    active: RwLock<Option<Active>>,
    apart: EachLane<Apart>,
    pub(crate) shadow: Shadow,
}

/// The bundle that judges, unless it is no longer confirmed.
#[derive(Clone, Debug)]
struct Active {
    evaluator: Arc<Evaluator>,
    /// Why it gives no verdict at any time.
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
        Self { active: RwLock::new(None), apart: EachLane::default(), shadow: Shadow::default() }
    }

    /// Makes a loaded bundle the one that judges from now on; evaluations under way end with the one they began with.
    pub fn activate(&self, evaluator: impl Into<Arc<Evaluator>>) {
        let evaluator = evaluator.into();
        tracing::info!(bundle_id = evaluator.bundle_id(), bundle_hash = %evaluator.bundle_hash(), "policy bundle active");
        *self.active.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Active { evaluator, unconfirmed: None });
    }

    /// Says why the active bundle is not confirmed, or that it is. While it is not, every evaluation is a DENY with this
    /// fault: a revoked bundle is not replaced by what was active before it.
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

    /// Why no evaluation gives a verdict at this instant, whatever is asked.
    #[must_use]
    pub fn fault(&self, now: EpochMs) -> Option<EvaluationFault> {
        match self.slot() {
            Some(active) => active.fault(Some(now)),
            None => Some(EvaluationFault::NoActiveBundle),
        }
    }

    /// Judges a request.
    ///
    /// First right here, with the fuel and the memory of about 100 us: handing 10 us of work to another thread would cost more than
    /// the work. Only when that runs out it is started over, with the manifest's fuel, on a thread of its own; an
    /// evaluation is pure, so the first attempt leaves no trace. While a bundle is known to need more, the first
    /// attempt is spared: done for every request it would take the threads that answer everybody else. What previews need
    /// says nothing of decisions: whoever previews chooses freely what he asks.
    pub async fn judge(&self, request: &Request<'_>, facts: &Facts) -> Evaluation {
        let Some(active) = self.slot() else { return outcome::without_bundle(request) };
        let evaluator = Arc::clone(&active.evaluator);
        if let Some(fault) = active.fault(instant(facts)) {
            return outcome::unjudged(request, evaluator.bundle_id(), evaluator.bundle_hash(), fault);
        }
        let is_heavy = evaluator.heavy(Lane::of(request.moment)).load(Ordering::Relaxed);
        let first = if is_heavy { None } else { evaluator.judge_inline(request, facts) };
        match first {
            Some(judged) => evaluator.complete(request, judged),
            None => self.judge_apart(evaluator, request, facts.clone()).await,
        }
    }

    async fn judge_apart(
        &self,
        evaluator: Arc<Evaluator>,
        request: &Request<'_>,
        facts: Facts,
    ) -> Evaluation {
        let (input, lane) = (request.to_input(), Lane::of(request.moment));
        let judged = self.apart.get(lane).run(move || {
            let request = input.request();
            let judged = evaluator.judge(&request, &facts, evaluator.fuel_max());
            evaluator.heavy(lane).store(judged.is_heavy(), Ordering::Relaxed);
            evaluator.complete(&request, judged)
        });
        match judged.await {
            Ok(Some(evaluation)) => evaluation,
            Ok(None) => outcome::failed(request, EvaluationFault::Panicked),
            Err(Busy) => outcome::failed(request, EvaluationFault::PoolExhausted),
        }
    }

    /// What judges now: a copy, so that one evaluation has one bundle from beginning to end.
    fn slot(&self) -> Option<Active> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Active {
    fn fault(&self, now: Option<EpochMs>) -> Option<EvaluationFault> {
        self.unconfirmed.or((!self.evaluator.is_valid_at(now)).then_some(EvaluationFault::ExpiredBundle))
    }
}

/// The instant that the evaluation is for. Validity is judged at the time that the policy is told, so that an evaluation
/// re-run later ends as it did.
fn instant(facts: &Facts) -> Option<EpochMs> {
    facts.get("time.now_ms")?.parse().ok().map(EpochMs)
}

#[async_trait]
impl EvaluatePolicy for PolicyHost {
    async fn evaluate(&self, request: Request<'_>, facts: &Facts) -> Outcome {
        let Evaluation { outcome, fault } = self.judge(&request, facts).await;
        if let Some(fault) = fault {
            tracing::error!(bundle_id = outcome.bundle_id, kind = fault.kind(), "policy fault");
        }
        counters::evaluated(request.moment, outcome.decision, fault);
        self.shadow.offer(&request, facts, &outcome);
        outcome
    }

    fn asks_for(&self, beginning: &str) -> bool {
        // A candidate must be told what it would be told in force.
        self.active().is_some_and(|evaluator| evaluator.asks_for(beginning))
            || self.shadow.asks_for(beginning)
    }
}
