//! Implements the engine's port for policy evaluation, with the active bundle.

use crate::counters;
use crate::shadow::Shadow;
use crate::worker_pool::{Busy, Lane, PerLane, WorkerPool};
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{Facts, FaultKind, Outcome, Request, SignedDocument};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Declared, EvaluatePolicy};
use gateway_policy::bundle::{Declaration, Severity};
use gateway_policy::{Evaluator, without_bundle};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tracing::Instrument;

/// Evaluates requests with the active bundle, which can be replaced at any time.
#[derive(Debug)]
pub struct PolicyHost {
    active: RwLock<Option<Active>>,
    /// The trusted documents, each name once. Some may have expired.
    documents: RwLock<Arc<[Arc<SignedDocument>]>>,
    pools: PerLane<WorkerPool>,
    pub(crate) shadow: Shadow,
}

/// The active bundle, and whether it is still trusted.
#[derive(Clone, Debug)]
struct Active {
    evaluator: Arc<Evaluator>,
    /// The fault of every evaluation while the trust roots do not accept the bundle.
    untrusted: Option<FaultKind>,
    /// Whether the next evaluation of the lane is expected to need the worker pool, because the last one on it used more than the
    /// inline limits.
    heavy: Arc<PerLane<AtomicBool>>,
}

impl Default for PolicyHost {
    fn default() -> Self {
        Self::new()
    }
}

impl PolicyHost {
    /// A host without a bundle. Until one is activated, every evaluation is a DENY with the fault `no_active_bundle`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            active: RwLock::new(None),
            documents: RwLock::new([].into()),
            pools: PerLane::default(),
            shadow: Shadow::default(),
        }
    }

    /// Makes a loaded bundle the active one. An evaluation in progress still uses the bundle before it.
    pub fn activate(&self, evaluator: impl Into<Arc<Evaluator>>) {
        let evaluator = evaluator.into();
        tracing::info!(bundle_id = evaluator.bundle_id(), bundle_hash = %evaluator.bundle_hash(), "policy bundle active");
        *self.active.write() = Some(Active { evaluator, untrusted: None, heavy: Arc::default() });
    }

    /// Sets the fault with which every evaluation is a DENY, because the active bundle is not trusted; `None` clears it. An
    /// earlier bundle does not take its place.
    pub fn set_untrusted(&self, fault: Option<FaultKind>) {
        if let Some(active) = &mut *self.active.write() {
            active.untrusted = fault;
        }
    }

    /// Puts these documents, which are trusted, in the place of those before.
    pub fn set_documents(&self, documents: Vec<Arc<SignedDocument>>) {
        *self.documents.write() = documents.into();
    }

    /// The active bundle, if any.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Evaluator>> {
        self.current().map(|active| active.evaluator)
    }

    /// The fault that an evaluation at `now` would have before the policy runs, if any.
    #[must_use]
    pub fn fault(&self, now: EpochMs) -> Option<FaultKind> {
        match self.current() {
            Some(active) => active.fault(Some(now)),
            None => Some(FaultKind::NoActiveBundle),
        }
    }

    /// Evaluates a request with the active bundle.
    ///
    /// First tries on this thread with limits of about 100 us: a typical evaluation takes 10 us, and passing it to another
    /// thread would take longer. If the limits do not suffice, evaluates again on the worker pool with the manifest's limits.
    /// Skips the first attempt if the last evaluation on the pool exceeded them, and for a bundle of the WASI world. Previews
    /// have a pool of their own and do not affect this choice for decisions.
    pub async fn evaluate_with_active(&self, request: &Request<'_>, facts: &Facts) -> Outcome {
        let Some(active) = self.current() else {
            return without_bundle(request, FaultKind::NoActiveBundle);
        };
        let evaluator = Arc::clone(&active.evaluator);
        if let Some(fault) = active.fault(instant(facts)) {
            return evaluator.not_evaluated(request, fault);
        }
        let is_heavy = active.heavy.get(Lane::of(request.moment)).load(Ordering::Relaxed);
        let first = if is_heavy { None } else { evaluator.evaluate_inline(request, facts) };
        match first {
            Some(raw) => evaluator.complete(request, raw),
            None => self.evaluate_on_pool(active, request, facts.clone()).await,
        }
    }

    async fn evaluate_on_pool(
        &self,
        Active { evaluator, heavy, .. }: Active,
        request: &Request<'_>,
        facts: Facts,
    ) -> Outcome {
        let (input, lane) = (request.to_input(), Lane::of(request.moment));
        let raw = self.pools.get(lane).run(move || {
            let request = input.request();
            let raw = evaluator.evaluate_raw(&request, &facts, evaluator.fuel_max());
            heavy.get(lane).store(raw.is_heavy(), Ordering::Relaxed);
            evaluator.complete(&request, raw)
        });
        match raw.await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => without_bundle(request, FaultKind::Panicked),
            Err(Busy) => without_bundle(request, FaultKind::PoolExhausted),
        }
    }

    #[cfg(test)]
    pub(crate) fn heavy(&self) -> Arc<PerLane<AtomicBool>> {
        self.current().map(|active| active.heavy).unwrap_or_default()
    }

    /// A copy, so that an evaluation uses one bundle from prefix to end.
    fn current(&self) -> Option<Active> {
        self.active.read().clone()
    }
}

impl Active {
    fn fault(&self, now: Option<EpochMs>) -> Option<FaultKind> {
        self.untrusted.or((!self.evaluator.is_valid_at(now)).then_some(FaultKind::ExpiredBundle))
    }
}

/// The time of the evaluation: the fact that the policy reads too, so that a replay has the same outcome.
fn instant(facts: &Facts) -> Option<EpochMs> {
    facts.get("time.now_ms")?.parse().ok().map(EpochMs)
}

#[async_trait]
impl EvaluatePolicy for PolicyHost {
    async fn evaluate(
        &self,
        operation_id: Option<OperationId>,
        request: Request<'_>,
        facts: &Facts,
    ) -> Outcome {
        let span = tracing::info_span!(
            target: "trace", "policy.evaluate",
            moment = request.moment.as_str(),
            decision = tracing::field::Empty,
        );
        let started = Instant::now();
        let outcome = self.evaluate_with_active(&request, facts).instrument(span.clone()).await;
        let elapsed = started.elapsed();
        span.record("decision", outcome.decision.as_str());
        if let Some(fault) = &outcome.fault {
            let (kind, detail) = (fault.kind.as_str(), &fault.detail);
            tracing::error!(bundle_id = outcome.bundle_id, kind, detail, "policy evaluation failed");
        }
        counters::count_evaluation(request.moment, &outcome, elapsed);
        self.shadow.enqueue(operation_id, instant(facts), &request, facts, &outcome);
        outcome
    }

    fn declared(&self, bundle_hash: Hex32, code: &str) -> Option<Declared> {
        let bundles = [self.active(), self.shadow.candidate().map(|candidate| candidate.evaluator())];
        let evaluator = bundles.into_iter().flatten().find(|bundle| bundle.bundle_hash() == bundle_hash)?;
        let Declaration { text, remedy, severity, .. } = evaluator.reason(code)?.clone();
        Some(Declared { text, remedy, denies: severity == Severity::Error })
    }

    fn documents(&self) -> Arc<[Arc<SignedDocument>]> {
        Arc::clone(&self.documents.read())
    }

    fn may_read_facts(&self, prefix: &str) -> bool {
        // The candidate must be evaluated with the facts that it would get if it were active.
        self.active().is_some_and(|evaluator| evaluator.may_read_facts(prefix))
            || self.shadow.may_read_facts(prefix)
    }

    fn read_parties(&self, parties: Parties) -> Option<Parties> {
        let mut currencies = self.shadow.currencies();
        currencies.extend(self.active().map(|evaluator| evaluator.currencies()).unwrap_or_default());
        parties.read_by(|facts| self.may_read_facts(facts), currencies)
    }
}
