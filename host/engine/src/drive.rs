//! The loop that sequences effects: load → next → perform → settle → commit → again, until the operation rests.

use crate::engine::Inner;
use crate::error::{Dependency, EngineError, SignError, Unavailable};
use crate::failpoint::failpoint;
use crate::policy::{PartyLocks, check_evaluated};
use crate::ports::{AdmissionRequest, SpendingRead};
use crate::session::Session;
use gateway_domain::approval::LapsedApproval;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::key::fit::{EPOCH_CONFLICT, KEY_NOT_ACTIVE, KeyError, check_key, check_named_key};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::{
    Action, Effect, EffectStep, Failure, Operation, Outcome, Phase, Refusal, Step, next,
};
use gateway_domain::policy::{self, Moment, SpendingTotals};
use gateway_domain::time::EpochMs;
use std::pin::pin;
use std::sync::Arc;
use tracing::Instrument;

/// Attempts at one signature in one drive. A node that restarted costs one; a node that fails again and again, for example because
/// its disk does, would otherwise cost attempts without a pause, with a share of the other signers for each.
const ATTEMPTS_PER_DRIVE: u32 = 4;

/// Evaluations of one decision in one drive. The second one has the authorities' totals; between two, other payments can raise them.
const EVALUATIONS_PER_DRIVE: u32 = 4;

impl Session<'_> {
    /// Performs the steps that the operation owes, until it rests. All decided events are committed before each
    /// effect, but for those that [may wait](may_wait_for_outcome) for its outcome, and at the end.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when a dependency did not answer: the operation still owes its step, and a later drive
    /// performs it.
    pub(crate) async fn drive(&mut self) -> Result<(), EngineError> {
        self.drive_until(|_| false).await
    }

    /// As [`Self::drive`], but stops as soon as `is_done` is true of the operation.
    pub(crate) async fn drive_until(
        &mut self,
        is_done: impl Fn(&Operation) -> bool + Send,
    ) -> Result<(), EngineError> {
        let mut n_attempts = 0;
        loop {
            match next(&self.operation) {
                _ if is_done(&self.operation) => return self.commit().await,
                Step::Rest if self.decide(Action::ResumeAdmission)? > 0 => {}
                Step::Rest => return self.commit().await,
                Step::Record(action) => {
                    self.decide(*action)?;
                }
                Step::Perform(effect) => {
                    if !self.may_wait_for_outcome() {
                        self.commit().await?;
                    }
                    if effect.id.step == EffectStep::Decision && self.lapse().await? {
                        continue;
                    }
                    if is_attempt_to_sign(&effect, &self.operation) {
                        n_attempts += 1;
                        if n_attempts > ATTEMPTS_PER_DRIVE {
                            let why = format!("{ATTEMPTS_PER_DRIVE} attempts at the signature were lost");
                            return Err(Unavailable::new(Dependency::Runtime, why).into());
                        }
                    }
                    tracing::debug!(effect_id = %effect.id, "performing");
                    let step = effect.id.step.as_str();
                    let operation_id = self.operation.id;
                    let span = tracing::info_span!(target: "trace", "effect", step, %operation_id);
                    let performed = self.perform(&effect).instrument(span).await?;
                    failpoint(&format!("performed-{}", effect.id.step.as_str()));
                    match performed {
                        Performed::Settled(settled) => self.settle(&effect, *settled).await?,
                        Performed::Postponed(policy) => self.postpone(*policy).await?,
                        Performed::Lapsed(lapsed) => {
                            let named = lapsed
                                .iter()
                                .map(|one| one.subject_id.as_str())
                                .collect::<Vec<_>>()
                                .join("`, `");
                            if !self.stop_counting(lapsed).await? {
                                let why =
                                    format!("the authorities do not count `{named}`, who have not approved");
                                return Err(Unavailable::new(Dependency::Authority, why).into());
                            }
                        }
                    }
                }
            }
        }
    }

    /// Waits until the policy allows the admission; the drive that finds the time reached goes on. Durable when it returns.
    async fn postpone(&mut self, policy: policy::Outcome) -> Result<(), EngineError> {
        self.decide(Action::PostponeAdmission { policy })?;
        self.commit().await
    }

    /// Performs an effect after all decided events are committed, but for those that may wait. If it takes long or fails, these are
    /// committed without its outcome.
    async fn perform(&mut self, effect: &Effect) -> Result<Performed, EngineError> {
        let (engine, operation, waiting) =
            (self.engine, Arc::clone(&self.operation), self.chained()?.to_vec());
        let mut performing = pin!(engine.perform(effect, &operation, &waiting));
        if waiting.is_empty() {
            return performing.await;
        }
        match tokio::time::timeout(engine.rules.recorded_within, &mut performing).await {
            Ok(Ok(performed)) => Ok(performed),
            Ok(Err(error)) => {
                self.commit().await?;
                Err(error)
            }
            Err(_) => {
                self.commit().await?;
                performing.await
            }
        }
    }

    /// As [`Self::drive`], but not an error when the key cannot sign yet: the operation keeps its approvals and waits
    /// for the key.
    pub(crate) async fn drive_or_wait(&mut self) -> Result<(), EngineError> {
        match self.drive().await {
            Err(EngineError::Refused(Refusal::KeyNotActive { .. })) => Ok(()),
            driven => driven,
        }
    }

    /// Records the outcome of an effect.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when the outcome does not complete the step.
    async fn settle(&mut self, effect: &Effect, settled: Settled) -> Result<(), EngineError> {
        let Settled { outcome, party_locks, spending } = settled;
        let missing = missing_confirmations(&self.operation, &outcome);
        if self.decide(Action::Settle { effect: effect.id, outcome })? == 0 {
            return Err(Unavailable::new(Dependency::Runtime, missing).into());
        }
        self.expect_spending(spending);
        if !party_locks.is_empty() {
            // Committed before the locks are released, so that the totals of the next payment include this one.
            self.commit().await?;
        }
        drop(party_locks);
        Ok(())
    }
}

/// Other ceremonies end after [`ATTEMPTS_MAX`](gateway_domain::operation::ATTEMPTS_MAX) attempts.
fn is_attempt_to_sign(effect: &Effect, operation: &Operation) -> bool {
    effect.id.step == EffectStep::Execute && operation.intent.operation_type() == OperationType::Sign
}

/// What came of an effect.
enum Performed {
    Settled(Box<Settled>),
    /// There is no decision, since the policy or the authorities do not count these approvals.
    Lapsed(Vec<LapsedApproval>),
    /// There is no decision yet, since the policy allows it at a later time only.
    Postponed(Box<policy::Outcome>),
}

/// The outcome of an effect, and for a decision what the engine keeps until it is durable.
struct Settled {
    outcome: Outcome,
    /// The locks of a payment's parties, held until the outcome is durable.
    party_locks: PartyLocks,
    /// The totals as they were read for the decision.
    spending: Option<SpendingRead>,
}

impl From<Outcome> for Performed {
    fn from(outcome: Outcome) -> Self {
        Self::Settled(Box::new(Settled { outcome, party_locks: Vec::new(), spending: None }))
    }
}

impl Inner {
    /// Performs an effect. `waiting`: events of the operation that are not committed yet.
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        waiting: &[ChainedEvent],
    ) -> Result<Performed, EngineError> {
        let key = self.ports.reads.key_load(operation.key.key_id).await?;
        match effect.id.step {
            EffectStep::Decision => self.obtain_decision(operation, waiting, key.as_ref()).await,
            EffectStep::Admission
            | EffectStep::PolicyReceipt
            | EffectStep::Execute
            | EffectStep::CommitEpoch
            | EffectStep::Publish
            | EffectStep::Discard => {
                Ok(self.ports.nodes.perform(effect, operation, key.as_ref()).await?.into())
            }
        }
    }

    /// Evaluates the policy over all approvals once more, then obtains the authority's signature.
    async fn obtain_decision(
        &self,
        operation: &Operation,
        waiting: &[ChainedEvent],
        key: Option<&CustodyKey>,
    ) -> Result<Performed, EngineError> {
        let key = match key {
            _ if operation.intent.operation_type() == OperationType::KeyCreate => None,
            Some(key) if key.state.can_sign() => Some(key),
            // It can still become active: the operation waits for it until the approvals expire.
            Some(key) if key.state == KeyState::Creating => {
                return Err(Refusal::KeyNotActive { state: key.state.as_str() }.into());
            }
            Some(_) | None => {
                return Ok(rejection(KEY_NOT_ACTIVE, "the key does not sign".to_owned(), None).into());
            }
        };
        if let Some(rejection) = key.and_then(|key| key_rejection(&operation.intent, key)) {
            return Ok(rejection.into());
        }
        let parties = self.parties_of(operation);
        let party_locks = match &parties {
            Some(parties) => self.lock_parties(parties).await?,
            None => Vec::new(),
        };
        let spending = self.spending(parties).await?;
        match self.decide_with(operation, waiting, key, spending.clone()).await? {
            Signing::Ended(outcome) => {
                Ok(Performed::Settled(Box::new(Settled { outcome: *outcome, party_locks, spending })))
            }
            Signing::Lapsed(lapsed) => Ok(Performed::Lapsed(lapsed)),
            Signing::Postponed(policy) => Ok(Performed::Postponed(policy)),
            Signing::Spent(_) => {
                let why =
                    "the policy allows the payment here, and denies it with what the authorities admitted";
                Err(Unavailable::new(Dependency::Authority, why).into())
            }
        }
    }

    /// Evaluates the policy and obtains the authority's signature. If the authorities admitted more than these totals, evaluates again
    /// with the higher ones, which by then deny: the operation ends as any other that the policy denies.
    async fn decide_with(
        &self,
        operation: &Operation,
        waiting: &[ChainedEvent],
        key: Option<&CustodyKey>,
        mut spending: Option<SpendingRead>,
    ) -> Result<Signing, EngineError> {
        let mut n_evaluations = 0;
        loop {
            let policy = self
                .evaluate_operation(Moment::Admission, operation, &operation.approvals, key, spending.clone())
                .await?;
            let signing = self.sign_if_allowed(operation, waiting, key, policy).await?;
            n_evaluations += 1;
            let Signing::Spent(admitted) = &signing else { return Ok(signing) };
            let raise = |read: SpendingRead| SpendingRead { totals: read.totals.raised_to(admitted), ..read };
            let raised = spending.clone().map(raise);
            if raised == spending || n_evaluations == EVALUATIONS_PER_DRIVE {
                return Ok(signing);
            }
            spending = raised;
        }
    }

    /// Obtains the authority's signature, or a rejection if the policy denies the operation.
    async fn sign_if_allowed(
        &self,
        operation: &Operation,
        waiting: &[ChainedEvent],
        key: Option<&CustodyKey>,
        policy: policy::Outcome,
    ) -> Result<Signing, EngineError> {
        if let Err(fault) = check_evaluated(&policy) {
            let request = operation.request(Moment::Admission, &operation.approvals);
            self.record_decision(operation.id, &request, policy).await?;
            return Err(fault.into());
        }
        if !policy.is_allowed() || !policy.quorum.satisfied {
            let detail = self.denied(&policy).to_string();
            return Ok(Signing::ended(rejection("policy_rejected", detail, Some(policy))));
        }
        let now = self.ports.clock.now();
        let outlived = policy.time_limits().outlived(&operation.approvals, now);
        if !outlived.is_empty() {
            return Ok(Signing::Lapsed(outlived));
        }
        if policy.postpones_until(now).is_some() {
            return Ok(Signing::Postponed(Box::new(policy)));
        }
        let derivation = key.map(|key| self.ports.nodes.derivation(key, &operation.intent)).transpose();
        let derivation = match derivation {
            Ok(derivation) => derivation.flatten(),
            Err(why) => return Ok(Signing::ended(rejection("derivation_impossible", why, None))),
        };
        let request = AdmissionRequest {
            operation,
            policy: &policy,
            key,
            derivation: derivation.as_ref(),
            // A node's clock may be behind.
            not_before_ms: EpochMs(now.0.saturating_sub(CLOCK_SKEW_MS)),
            not_after_ms: now.plus_ms(self.rules.admission_ttl_ms),
        };
        match self.ports.authority.sign(request, waiting).await {
            Ok(admission) => {
                let admission = Box::new(admission);
                Ok(Signing::ended(Outcome::DecisionSigned { policy, admission }))
            }
            Err(SignError::Spent(admitted)) => Ok(Signing::Spent(admitted)),
            Err(SignError::Lapsed(lapsed)) => Ok(Signing::Lapsed(lapsed)),
            Err(SignError::Refused(why)) => Ok(Signing::ended(rejection("authority_refused", why, None))),
            Err(SignError::Outdated) => Err(EngineError::Conflict),
            Err(SignError::Unavailable(why)) => Err(why.into()),
        }
    }
}

/// The result of an attempt at a decision.
enum Signing {
    /// Signed, or rejected.
    Ended(Box<Outcome>),
    /// The authorities admitted this much for the payment's account and recipient, with which the policy denies it.
    Spent(SpendingTotals),
    /// The policy or the authorities do not count these approvals.
    Lapsed(Vec<LapsedApproval>),
    /// The policy allows it at a later time only.
    Postponed(Box<policy::Outcome>),
}

impl Signing {
    fn ended(outcome: Outcome) -> Self {
        Self::Ended(Box::new(outcome))
    }
}

/// The rejection of an operation whose key has changed since the submission, so that it can no longer do what the intent
/// requests.
fn key_rejection(intent: &Intent, key: &CustodyKey) -> Option<Outcome> {
    let error = check_key(intent, key).and_then(|()| check_named_key(intent, key)).err()?;
    let is_epoch = matches!(error, KeyError::Refused(Refusal::EpochConflict(_)));
    let code = if is_epoch { EPOCH_CONFLICT } else { "key_changed" };
    let detail = match error {
        KeyError::Invalid { pointer, message } => format!("`{pointer}` {message}"),
        other => EngineError::from(other).to_string(),
    };
    Some(rejection(code, detail, None))
}

fn rejection(code: &str, detail: String, policy: Option<policy::Outcome>) -> Outcome {
    Outcome::Rejected { failure: Failure { code: code.to_owned(), detail, culprits: Vec::new() }, policy }
}

/// The error message for a step that too few nodes confirmed.
fn missing_confirmations(operation: &Operation, outcome: &Outcome) -> String {
    let (Some(plan), Outcome::Acked(receipts)) = (operation.plan(), outcome) else {
        return "the step could not be completed".to_owned();
    };
    let others =
        plan.nodes.iter().filter(|node| !receipts.iter().any(|receipt| receipt.participant == **node));
    let others = others.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let needed = if operation.phase == Phase::Discarding && !plan.stages_epoch() {
        let n_needed = plan.holders.len().saturating_sub(plan.n_holders_required).saturating_add(1);
        format!("discard receipts of {n_needed} nodes that released no share are needed")
    } else if plan.stages_epoch() {
        "every node that gets a share is needed".to_owned()
    } else {
        format!("{} are needed", plan.n_holders_required)
    };
    format!(
        "{} of {} nodes confirmed the step, {needed}; not confirmed by: {others}",
        receipts.len(),
        plan.nodes.len()
    )
}
