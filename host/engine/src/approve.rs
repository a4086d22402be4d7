//! Approval: load → policy → decide → commit → drive to admission once the quorum is reached.

use crate::engine::{Engine, Inner};
use crate::error::{Dependency, EngineError, Unavailable};
use crate::policy::check_evaluated;
use crate::ports::Record;
use crate::session::{Session, Target, UseCase};
use gateway_domain::approval::{Approval, ApprovalError, ApprovalSignature};
use gateway_domain::operation::{Action, Operation, Phase, Refusal, Requester, approval_is_open};
use gateway_domain::policy::{self, Moment};

/// A parsed request to approve an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approve {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they approve.
    pub roles: Vec<String>,
    /// The approver's clock, epoch milliseconds: a claim.
    pub claimed_at_ms: i64,
    /// The approver's own signature over the approval statement.
    pub signature: Option<Box<ApprovalSignature>>,
    /// The caller that sent it.
    pub requester: Option<Requester>,
}

impl Engine {
    /// Records an approval; the last one needed drives the operation to admission.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `RateLimited`, `Unavailable`.
    pub async fn approve(&self, target: Target, vote: Approve) -> Result<Record, EngineError> {
        self.run((target, vote)).await
    }
}

impl UseCase for (Target, Approve) {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let (target, vote) = self;
        let mut session = engine.session(target).await?;
        let approval = Approval {
            subject_id: vote.subject_id.clone(),
            roles: vote.roles.clone(),
            claimed_at_ms: vote.claimed_at_ms,
            approved_at_ms: engine.ports.clock.now(),
            signature: vote.signature.clone(),
        };
        engine.check_signature(&session.operation, &approval)?;
        if session.expire()? > 0 {
            session.commit().await?;
        }
        let requester = vote.requester.as_ref();
        let policy = engine.evaluate_approval(&session.operation, &approval, requester).await?;
        session.count(approval, policy, requester).await?;
        // The approval is kept even when the admission cannot be decided now: a later drive will decide it.
        session.drive_or_wait().await?;
        refused_at_admission(&session.operation)?;
        Ok(session.into_record())
    }
}

impl Session<'_> {
    /// Fails an operation whose approvals took too long. The number of events.
    pub(crate) fn expire(&mut self) -> Result<usize, Refusal> {
        self.decide(Action::Expire { approval_ttl_ms: self.engine.rules.approval_ttl_ms })
    }

    /// Decides on the approval; one that the policy does not count leaves a record.
    async fn count(
        &mut self,
        approval: Approval,
        policy: Option<policy::Outcome>,
        requester: Option<&Requester>,
    ) -> Result<(), EngineError> {
        let action = Action::Approve { approval: approval.clone(), policy: policy.clone() };
        let Err(refusal) = self.decide_at(approval.approved_at_ms, requester, action) else { return Ok(()) };
        if let Some(policy) = policy {
            self.engine.record_refused_approval(&self.operation, &approval, policy, requester).await?;
        }
        Err(refusal.into())
    }
}

impl Inner {
    /// Checked before anything is decided, and on a repeat too: an approval without a valid signature leaves no trace.
    fn check_signature(&self, operation: &Operation, approval: &Approval) -> Result<(), EngineError> {
        let now = approval.approved_at_ms;
        let checked = self.rules.signed_approvals.check(&operation.approval_subject(), approval, now);
        let checked = checked.and_then(|()| match &approval.signature {
            Some(_) => operation.check_approval_time(approval.claimed_at_ms, now),
            None => Ok(()),
        });
        checked.map_err(|fault| match fault {
            ApprovalError::NoRegistry => Unavailable::new(Dependency::Policy, fault.to_string()).into(),
            fault => Refusal::ApprovalNotSigned { subject_id: approval.subject_id.clone(), fault }.into(),
        })
    }

    /// Takes a token like a submission does, since the record stays for good.
    async fn record_refused_approval(
        &self,
        operation: &Operation,
        approval: &Approval,
        policy: policy::Outcome,
        requester: Option<&Requester>,
    ) -> Result<(), EngineError> {
        let client =
            requester.and_then(|requester| requester.client.as_ref()).unwrap_or(&operation.submitter);
        let token = self.token(&operation.tenant, &client.client_id)?;
        let approvals = with(operation, approval);
        let request = operation.request(Moment::Approval, &approvals);
        self.record_refusal(operation.id, &request, policy, token).await?;
        Ok(())
    }

    /// The policy's outcome over the approvals with this one; none where nothing depends on it.
    async fn evaluate_approval(
        &self,
        operation: &Operation,
        approval: &Approval,
        requester: Option<&Requester>,
    ) -> Result<Option<policy::Outcome>, EngineError> {
        if !approval_is_open(operation, &approval.subject_id) {
            return Ok(None);
        }
        let key = self.ports.reads.key_load(operation.key.key_id).await?;
        let approvals = with(operation, approval);
        let payment = self.needs_velocity(&operation.intent);
        let policy =
            self.evaluate_operation(Moment::Approval, operation, &approvals, key.as_ref(), payment).await?;
        if let Err(fault) = check_evaluated(&policy) {
            self.record_refused_approval(operation, approval, policy, requester).await?;
            return Err(fault.into());
        }
        Ok(Some(policy))
    }
}

/// The approvals so far, and this one.
fn with(operation: &Operation, approval: &Approval) -> Vec<Approval> {
    [operation.approvals.as_slice(), std::slice::from_ref(approval)].concat()
}

/// Tells the caller whose approval reached the quorum that the policy denied the admission.
fn refused_at_admission(operation: &Operation) -> Result<(), Refusal> {
    match (&operation.phase, &operation.failure) {
        (Phase::Failed, Some(failure)) if failure.code == "policy_rejected" => {
            Err(Refusal::PolicyRejected { reasons: vec![failure.detail.clone()] })
        }
        (_, Some(failure)) => Err(Refusal::Failed(failure.clone())),
        (_, None) => Ok(()),
    }
}
