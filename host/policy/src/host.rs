//! The active bundle behind the engine's port.

use crate::evaluator::{Evaluation, Evaluator};
use crate::fault::EvaluationFault;
use crate::limits::{FUEL_INLINE, HEAVY_EVALUATIONS_MAX};
use crate::outcome;
use async_trait::async_trait;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Facts, Moment, Outcome, Request};
use gateway_engine::ports::EvaluatePolicy;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Semaphore;
use tokio::task;

/// Evaluates with whichever bundle is active, and swaps it in one step.
#[derive(Debug)]
pub struct PolicyHost {
    active: RwLock<Option<Arc<Evaluator>>>,
    heavy: Arc<Semaphore>,
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
        Self { active: RwLock::new(None), heavy: Arc::new(Semaphore::new(HEAVY_EVALUATIONS_MAX)) }
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
    /// evaluation is pure, so the first attempt leaves no trace.
    pub async fn judge(&self, request: &Request<'_>, facts: &Facts) -> Evaluation {
        let Some(evaluator) = self.active() else { return outcome::without_bundle(request) };
        let first = evaluator.judge(request, facts, FUEL_INLINE);
        if first.fault() == Some(EvaluationFault::OutOfFuel) && evaluator.fuel_max() > FUEL_INLINE {
            return self.judge_apart(evaluator, OwnedRequest::of(request), facts.clone()).await;
        }
        outcome::complete(request, evaluator.bundle_id(), evaluator.bundle_hash(), first)
    }

    async fn judge_apart(
        &self,
        evaluator: Arc<Evaluator>,
        request: OwnedRequest,
        facts: Facts,
    ) -> Evaluation {
        // The semaphore is never closed; without a permit the evaluation would only be less orderly.
        let permit = Arc::clone(&self.heavy).acquire_owned().await;
        let spare = request.clone();
        let judged = task::spawn_blocking(move || {
            let _permit = permit;
            evaluator.evaluate(&request.borrow(), &facts, evaluator.fuel_max())
        });
        match judged.await {
            Ok(evaluation) => evaluation,
            Err(_) => outcome::failed(&spare.borrow(), EvaluationFault::Panicked),
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

    fn asks_for(&self, beginning: &str) -> bool {
        self.active().is_some_and(|evaluator| evaluator.asks_for(beginning))
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
