//! Approval: load → policy → decide → commit → drive to admission once the quorum is reached.

use crate::engine::{Engine, Inner};
use crate::error::{Denied, Dependency, EngineError, Unavailable};
use crate::policy::check_evaluated;
use crate::ports::{Asked, Record};
use crate::session::{Session, Target, Targeted, UseCase};
use gateway_domain::approval::{Approval, ApprovalError, ApprovalSignature, LapsedApproval, Statement};
use gateway_domain::ids::Tenant;
use gateway_domain::key::fit::KEY_NOT_ACTIVE;
use gateway_domain::operation::{Action, Operation, Phase, Refusal, Requester, approval_is_open};
use gateway_domain::people::Registered;
use gateway_domain::policy::{self, DecisionId, Moment};
use gateway_domain::time::EpochMs;

/// A parsed request to approve an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approve {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they approve.
    pub roles: Vec<String>,
    /// The time by the approver's clock, epoch milliseconds, unverified.
    pub claimed_at_ms: i64,
    /// The approver's own signature over the approval statement; `None` if it did not sign.
    pub signature: Option<Box<ApprovalSignature>>,
    /// The client that sent the request.
    pub requester: Option<Requester>,
    /// The request's id.
    pub request_id: Option<String>,
}

/// Who sent a request, and its id.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) requester: Option<&'a Requester>,
    pub(crate) request_id: Option<&'a str>,
}

impl Engine {
    /// Records an approval; the last one needed drives the operation to admission.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `RateLimited`, `Unavailable`.
    pub async fn approve(&self, target: Target, approve: Approve) -> Result<Record, EngineError> {
        self.run(Targeted(target, approve)).await
    }
}

impl UseCase for Targeted<Approve> {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let Targeted(target, approve) = self;
        let mut session = engine.session(target).await?;
        let approval = Approval {
            subject_id: approve.subject_id.clone(),
            roles: approve.roles.clone(),
            registered: engine.registered(&session.operation.tenant, &approve.subject_id)?,
            claimed_at_ms: approve.claimed_at_ms,
            approved_at_ms: engine.ports.clock.now(),
            signature: approve.signature.clone(),
        };
        let statement = session.operation.approval_subject().statement(&approval);
        let signature = approval.signature.as_deref();
        engine.check_signature(&session.operation, &statement, signature, approval.approved_at_ms)?;
        if session.expire()? > 0 {
            session.commit().await?;
        }
        session.lapse().await?;
        let sender =
            Sender { requester: approve.requester.as_ref(), request_id: approve.request_id.as_deref() };
        let policy = engine.evaluate_approval(&session.operation, &approval, sender).await?;
        session.record_approval(approval, policy, sender).await?;
        // The drive commits the approval before it decides the admission. If that fails, a later drive decides it.
        session.drive_or_wait().await?;
        engine.check_not_failed(&session.operation)?;
        Ok(session.into_record())
    }
}

impl Session<'_> {
    /// Fails an operation whose approvals or execution took too long. Returns the number of events, 0 if it did not.
    pub(crate) fn expire(&mut self) -> Result<usize, Refusal> {
        self.decide(Action::Expire { approval_ttl_ms: self.engine.rules.approval_ttl_ms })
    }

    /// Stops counting approvals whose signatures no longer verify, or that are older than the last evaluation lets them count; durable when
    /// it returns. Returns whether there were any.
    ///
    /// # Errors
    /// [`EngineError`]: `Conflict`, `Unavailable`.
    pub(crate) async fn lapse(&mut self) -> Result<bool, EngineError> {
        if !may_lapse(&self.operation) {
            return Ok(false);
        }
        let lapsed = self.engine.lapsed(&self.operation);
        let lapsed = lapsed.map_err(|fault| Unavailable::new(Dependency::Policy, fault.to_string()))?;
        self.stop_counting(lapsed).await
    }

    /// As [`Self::lapse`], for these approvals.
    pub(crate) async fn stop_counting(&mut self, lapsed: Vec<LapsedApproval>) -> Result<bool, EngineError> {
        if lapsed.is_empty() {
            return Ok(false);
        }
        let left = self.operation.approvals_without(&lapsed);
        let policy = self.engine.evaluate_over(&self.operation, &left).await?;
        check_evaluated(&policy)?;
        let n_events = self.decide(Action::LapseApprovals { lapsed, policy })?;
        self.commit().await?;
        Ok(n_events > 0)
    }

    /// Adds the approval to the operation. If the policy refuses it, records the refusal and returns it as the error.
    async fn record_approval(
        &mut self,
        approval: Approval,
        policy: Option<policy::Outcome>,
        sender: Sender<'_>,
    ) -> Result<(), EngineError> {
        let action = Action::Approve { approval: approval.clone(), policy: policy.clone() };
        let Err(refusal) = self.decide_at(approval.approved_at_ms, sender.requester, action) else {
            return Ok(());
        };
        let Some(policy) = policy else { return Err(refusal.into()) };
        let mut denied = self.engine.denied(&policy);
        denied.decision_id =
            self.engine.record_refused_approval(&self.operation, &approval, policy, sender).await?;
        Err(match refusal {
            Refusal::PolicyRejected { .. } => denied.into(),
            other => other.into(),
        })
    }
}

impl Inner {
    /// Checks the signature and time of an approver's statement, before the policy is evaluated or anything is recorded; for a repeat
    /// too.
    pub(crate) fn check_signature(
        &self,
        operation: &Operation,
        statement: &Statement<'_>,
        signature: Option<&ApprovalSignature>,
        now: EpochMs,
    ) -> Result<(), EngineError> {
        let checked = self.rules.signed_approvals.check(statement, signature, now);
        let checked = checked.and_then(|()| match signature {
            Some(_) => operation.check_approval_time(statement.claimed_at_ms(), now),
            None => Ok(()),
        });
        checked.map_err(|fault| match fault {
            ApprovalError::NoRegistry => Unavailable::new(Dependency::Policy, fault.to_string()).into(),
            fault => Refusal::ApprovalNotSigned { subject_id: statement.subject_id.to_owned(), fault }.into(),
        })
    }

    /// What the registry of approvers says of a subject.
    ///
    /// # Errors
    /// [`Unavailable`] while the registry cannot be read.
    pub(crate) fn registered(
        &self,
        tenant: &Tenant,
        subject_id: &str,
    ) -> Result<Option<Box<Registered>>, Unavailable> {
        let registered = self.rules.signed_approvals.registered(tenant, subject_id);
        registered.map_err(|fault| Unavailable::new(Dependency::Policy, fault.to_string()))
    }

    /// Records a refused approval. The record is permanent, so it takes a token from the client's quota, like a submission.
    pub(crate) async fn record_refused_approval(
        &self,
        operation: &Operation,
        approval: &Approval,
        policy: policy::Outcome,
        sender: Sender<'_>,
    ) -> Result<Option<DecisionId>, EngineError> {
        let client = sender.requester.and_then(|requester| requester.client.as_ref());
        let client = client.unwrap_or(&operation.submitter);
        let asked = Asked { request_id: sender.request_id.map(str::to_owned), idempotency_key: None };
        let token = self.token(&operation.tenant, &client.client_id)?;
        let approvals = approvals_with(operation, approval);
        let request = operation.request(Moment::Approval, &approvals);
        let (decision_id, _) = self.record_refusal(operation.id, asked, &request, policy, token).await?;
        Ok(decision_id)
    }

    /// Evaluates the policy over the approvals including this one. `None` if the approval cannot count.
    async fn evaluate_approval(
        &self,
        operation: &Operation,
        approval: &Approval,
        sender: Sender<'_>,
    ) -> Result<Option<policy::Outcome>, EngineError> {
        if !approval_is_open(operation, approval.person()) {
            return Ok(None);
        }
        self.evaluate_with(operation, approval, sender).await.map(Some)
    }

    /// Evaluates the policy over the approvals so far and this one.
    pub(crate) async fn evaluate_with(
        &self,
        operation: &Operation,
        approval: &Approval,
        sender: Sender<'_>,
    ) -> Result<policy::Outcome, EngineError> {
        let policy = self.evaluate_over(operation, &approvals_with(operation, approval)).await?;
        if let Err(fault) = check_evaluated(&policy) {
            self.record_refused_approval(operation, approval, policy, sender).await?;
            return Err(fault.into());
        }
        Ok(policy)
    }

    /// Evaluates the policy over these approvals, before the admission.
    async fn evaluate_over(
        &self,
        operation: &Operation,
        approvals: &[Approval],
    ) -> Result<policy::Outcome, EngineError> {
        let key = self.ports.reads.key_load(operation.key.key_id).await?;
        let spending = self.spending(self.parties_of(operation)).await?;
        Ok(self.evaluate_operation(Moment::Approval, operation, approvals, key.as_ref(), spending).await?)
    }

    /// The approvals of the operation that no longer count, though that is not recorded yet.
    pub(crate) fn lapsed(&self, operation: &Operation) -> Result<Vec<LapsedApproval>, ApprovalError> {
        let (now, approvals) = (self.ports.clock.now(), &operation.approvals);
        let (rule, limits) = (&self.rules.signed_approvals, operation.policy.time_limits());
        let wait_ms = limits.wait_ms(approvals);
        let mut lapsed = rule.lapsed(&operation.approval_subject(), approvals, now, wait_ms)?;
        let outlived = limits.outlived(approvals, now);
        let is_new = |one: &LapsedApproval| lapsed.iter().all(|other| other.subject_id != one.subject_id);
        let outlived: Vec<_> = outlived.into_iter().filter(is_new).collect();
        lapsed.extend(outlived);
        Ok(lapsed)
    }

    /// Returns the failure of an operation that the drive after its last approval ended, for example by a denial.
    fn check_not_failed(&self, operation: &Operation) -> Result<(), EngineError> {
        match (&operation.phase, &operation.failure) {
            (Phase::Failed, Some(failure)) if failure.code == "policy_rejected" => {
                // The rejection is the last event.
                let decision_id = DecisionId::Event { operation_id: operation.id, seq: operation.revision };
                Err(Denied { decision_id: Some(decision_id), ..self.denied(&operation.policy) }.into())
            }
            // An operation on a key that does not sign may be approved; the view says that it has ended, and executing it is refused.
            (Phase::Failed, Some(failure)) if failure.code == KEY_NOT_ACTIVE => Ok(()),
            (_, Some(failure)) => Err(Refusal::Failed(failure.clone()).into()),
            (_, None) => Ok(()),
        }
    }
}

/// Whether approvals of the operation can stop counting.
pub(crate) const fn may_lapse(operation: &Operation) -> bool {
    matches!(operation.phase, Phase::PendingApproval | Phase::Deciding | Phase::Postponed { .. })
}

/// The approvals so far, followed by this one.
fn approvals_with(operation: &Operation, approval: &Approval) -> Vec<Approval> {
    [operation.approvals.as_slice(), std::slice::from_ref(approval)].concat()
}
