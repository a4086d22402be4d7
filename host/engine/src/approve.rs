//! Approval: load → policy → decide → commit → drive to admission when the quorum is reached.

use crate::draft::Draft;
use crate::engine::{Engine, Inner};
use crate::error::{Dependency, EngineError, Unavailable, judged};
use crate::ports::Record;
use crate::target::{Target, until_unraced};
use gateway_domain::approval::{Approval, ApprovalFault, ApprovalSignature};
use gateway_domain::operation::{Action, Operation, Phase, Refusal, Requester, approval_is_open};
use gateway_domain::policy::{self, Moment};
use gateway_domain::time::EpochMs;

/// One person's vote as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Who.
    pub subject_id: String,
    /// In which roles.
    pub roles: Vec<String>,
    /// The voter's clock, epoch milliseconds: a claim.
    pub claimed_at_ms: i64,
    /// The voter's own signature over its statement.
    pub signature: Option<Box<ApprovalSignature>>,
    /// Who sent it.
    pub requester: Option<Requester>,
}

impl Engine {
    /// Counts a vote; the last one needed drives the operation to admission.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `RateLimited`, `Unavailable`.
    pub async fn approve(&self, target: Target, vote: Vote) -> Result<Record, EngineError> {
        let engine = self.clone();
        let work = async move { until_unraced(|| Box::pin(engine.0.approve(&target, &vote))).await };
        self.run_to_end(work).await
    }
}

impl Inner {
    async fn approve(&self, target: &Target, vote: &Vote) -> Result<Record, EngineError> {
        let _turn = self.locks.lock(target.id).await?;
        let mut draft = self.find_draft(target).await?;
        let approval = Approval {
            subject_id: vote.subject_id.clone(),
            roles: vote.roles.clone(),
            claimed_at_ms: vote.claimed_at_ms,
            approved_at_ms: self.ports.clock.now(),
            signature: vote.signature.clone(),
        };
        self.check_signature(&draft.operation, &approval)?;
        if self.expire(&mut draft, approval.approved_at_ms)? > 0 {
            draft.commit(self).await?;
        }
        let policy = self.who_counts(&draft.operation, &approval, vote.requester.as_ref()).await?;
        self.count(&mut draft, approval, policy, vote.requester.as_ref()).await?;
        // The vote is kept even when nobody can admit now; a later drive will.
        self.drive_or_wait(&mut draft).await?;
        refused_at_admission(&draft.operation)?;
        Ok(draft.into_record())
    }

    /// Ends an operation whose approvals take too long. The number of events.
    pub(crate) fn expire(&self, draft: &mut Draft, now: EpochMs) -> Result<usize, Refusal> {
        draft.ask(now, Action::Expire { approval_ttl_ms: self.rules.approval_ttl_ms })
    }

    /// Before anything is decided on it, and on a repeat too: what is not signed as it must be leaves no trace.
    fn check_signature(&self, operation: &Operation, approval: &Approval) -> Result<(), EngineError> {
        let now = approval.approved_at_ms;
        let checked = self.rules.signed_approvals.check(&operation.approval_subject(), approval, now);
        let checked = checked.and_then(|()| match &approval.signature {
            Some(_) => operation.may_be_approved_at(approval.claimed_at_ms, now),
            None => Ok(()),
        });
        checked.map_err(|fault| match fault {
            ApprovalFault::NoRegistry => Unavailable::new(Dependency::Policy, fault.to_string()).into(),
            fault => Refusal::ApprovalNotSigned { subject_id: approval.subject_id.clone(), fault }.into(),
        })
    }

    /// Decides on the vote; one that the policy keeps from counting leaves its record.
    async fn count(
        &self,
        draft: &mut Draft,
        approval: Approval,
        policy: Option<policy::Outcome>,
        requester: Option<&Requester>,
    ) -> Result<(), EngineError> {
        let ask = Action::Approve { approval: approval.clone(), policy: policy.clone() };
        let Err(refusal) = draft.ask_for(requester, approval.approved_at_ms, ask) else { return Ok(()) };
        if let Some(policy) = policy {
            self.record_vote(&draft.operation, &approval, policy, requester).await?;
        }
        Err(refusal.into())
    }

    /// A vote that does not count is charged like a submission: it is on record for ever.
    async fn record_vote(
        &self,
        operation: &Operation,
        approval: &Approval,
        policy: policy::Outcome,
        requester: Option<&Requester>,
    ) -> Result<(), EngineError> {
        let client =
            requester.and_then(|requester| requester.client.as_ref()).unwrap_or(&operation.submitter);
        let charge = self.charge(&operation.tenant, &client.client_id)?;
        let approvals = with(operation, approval);
        let request = operation.request(Moment::Approval, &approvals);
        self.record_refusal(operation.id, &request, policy, charge).await?;
        Ok(())
    }

    /// The policy over the approvals with this one, where anything depends on it.
    async fn who_counts(
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
        let spent_beside = self.spending_asked(&operation.intent);
        let policy =
            self.judge_operation(Moment::Approval, operation, &approvals, key.as_ref(), spent_beside).await?;
        if let Err(fault) = judged(&policy) {
            self.record_vote(operation, approval, policy, requester).await?;
            return Err(fault.into());
        }
        Ok(Some(policy))
    }
}

/// The approvals so far, and this one.
fn with(operation: &Operation, approval: &Approval) -> Vec<Approval> {
    [operation.approvals.as_slice(), std::slice::from_ref(approval)].concat()
}

/// The vote that reached the quorum learns that the policy denied the admission.
fn refused_at_admission(operation: &Operation) -> Result<(), Refusal> {
    match (&operation.phase, &operation.failure) {
        (Phase::Failed, Some(failure)) if failure.code == "policy_rejected" => {
            Err(Refusal::PolicyRejected { reasons: vec![failure.detail.clone()] })
        }
        (_, Some(failure)) => Err(Refusal::Failed(failure.clone())),
        (_, None) => Ok(()),
    }
}
