//! The active bundle behind the engine's port.

use crate::evaluator::{Evaluation, Evaluator};
use crate::fault::EvaluationFault;
use crate::apart::{Apart, Busy};
use crate::limits::FUEL_INLINE;
use crate::outcome;
use async_trait::async_trait;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Facts, Moment, Outcome, Request};
use gateway_engine::ports::EvaluatePolicy;
use std::sync::{Arc, PoisonError, RwLock};

/// Evaluates with whichever bundle is active, and swaps it in one step.
#[derive(Debug)]
pub struct PolicyHost {
    active: RwLock<Option<Arc<Evaluator>>>,
    apart: Apart,
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
        Self { active: RwLock::new(None), apart: Apart::new() }
    }

    /// Makes a loaded bundle the one that judges from now on; evaluations under way end with the one they began with.
    pub fn activate(&self, evaluator: Evaluator) {
        tracing::info!(bundle_id = evaluator.bundle_id(), bundle_hash = %evaluator.bundle_hash(), "policy bundle active");
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(evaluator));
    }

    /// The active bundle, if any.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Evaluator>> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Judges a request.
    ///
    /// First right here, with the fuel of about 100 us: handing 10 us of work to another thread would cost more than
    /// the work. Only when that runs out it is started over, with the manifest's fuel, on a thread of its own; an
    /// evaluation is pure, so the first attempt leaves no trace. While a bundle is known to need more, the first
    /// attempt is spared: done for every request it would take the threads that answer everybody else.
    pub async fn judge(&self, request: &Request<'_>, facts: &Facts) -> Evaluation {
        let Some(evaluator) = self.active() else { return outcome::without_bundle(request) };
        let first = if evaluator.is_heavy() { None } else { evaluator.judge_inline(request, facts) };
        match first {
            Some(judged) => {
                outcome::complete(request, evaluator.bundle_id(), evaluator.bundle_hash(), judged)
            }
            None => self.judge_apart(evaluator, OwnedRequest::of(request), facts.clone()).await,
        }
    }

    async fn judge_apart(
        &self,
        evaluator: Arc<Evaluator>,
        request: OwnedRequest,
        facts: Facts,
    ) -> Evaluation {
        let spare = request.clone();
        let judged = self.apart.run(move || {
            let evaluation = evaluator.evaluate(&request.borrow(), &facts, evaluator.fuel_max());
            let is_slow = evaluation.fault == Some(EvaluationFault::Deadline);
            evaluator.set_heavy(is_slow || evaluation.outcome.fuel_used > FUEL_INLINE);
            evaluation
        });
        match judged.await {
            Ok(Some(evaluation)) => evaluation,
            Ok(None) => outcome::failed(&spare.borrow(), EvaluationFault::Panicked),
            Err(Busy) => outcome::failed(&spare.borrow(), EvaluationFault::PoolExhausted),
        }
    }
}

#[async_trait]
impl EvaluatePolicy for PolicyHost {
    async fn evaluate(&self, request: Request<'_>, facts: &Facts) -> Outcome {
        let Evaluation { outcome, fault } = self.judge(&request, facts).await;
        if let Some(fault) = fault {
            tracing::error!(bundle_id = outcome.bundle_id, kind = fault.kind(), "policy fault");
        }
        outcome
    }
}

/// A request that outlives its caller's borrow.
#[derive(Clone)]
struct OwnedRequest {
    moment: Moment,
    intent_hash: Hex32,
    tenant: Tenant,
    key_ref: KeyRef,
    submitter: ClientBinding,
    intent: Intent,
    approvals: Vec<Approval>,
}

impl OwnedRequest {
    fn of(request: &Request<'_>) -> Self {
        Self {
            moment: request.moment,
            intent_hash: request.intent_hash,
            tenant: request.tenant.clone(),
            key_ref: request.key_ref.clone(),
            submitter: request.submitter.clone(),
            intent: request.intent.clone(),
            approvals: request.approvals.to_vec(),
        }
    }

    fn borrow(&self) -> Request<'_> {
        Request {
            moment: self.moment,
            intent_hash: self.intent_hash,
            tenant: &self.tenant,
            key_ref: &self.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals: &self.approvals,
        }
    }
}
