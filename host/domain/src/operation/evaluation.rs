//! What the policy was asked about an operation, found again in its events.
//!
//! An event that an evaluation led to carries the whole [`policy::Outcome`] and not the input, which would repeat the
//! submission each time: it follows from the events before it.

use super::event::{Change, Event};
use super::state::{Operation, evolve, replay};
use crate::approval::Approval;
use crate::policy::{self, Input, Moment, Request};
use crate::time::EpochMs;

/// One evaluation that moved an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The event that carries it, from 1: the operation's revision after it.
    pub seq: u64,
    /// When.
    pub at_ms: EpochMs,
    /// What was asked. Its digest is the outcome's `input_hash`.
    pub input: Input,
    /// What came of it.
    pub outcome: policy::Outcome,
}

impl Operation {
    /// The question about this operation with these approvals.
    #[must_use]
    pub fn request<'a>(&'a self, moment: Moment, approvals: &'a [Approval]) -> Request<'a> {
        Request {
            moment,
            intent_hash: self.intent_hash,
            tenant: &self.tenant,
            key_ref: &self.key.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals,
        }
    }
}

impl Change {
    /// The evaluation that led to this change, if one did, and why it was made.
    #[must_use]
    pub fn evaluation(&self) -> Option<(Moment, &policy::Outcome)> {
        match self {
            Self::Submitted(submission) => Some((Moment::Submit, &submission.policy)),
            Self::ApprovalRecorded { policy, .. } | Self::ApprovalsWaived { policy } => {
                Some((Moment::Approval, policy))
            }
            Self::DecisionSigned { policy, .. } => Some((Moment::Admission, policy)),
            // The only denial that ends an operation which exists.
            Self::Failed { policy, .. } => policy.as_ref().map(|policy| (Moment::Admission, policy)),
            Self::ApprovalRequested { .. }
            | Self::LateApprovalRecorded { .. }
            | Self::QuorumReached
            | Self::AdmissionApplied { .. }
            | Self::ExecutionRequested { .. }
            | Self::ReceiptMaterialized { .. }
            | Self::CeremonyStarted { .. }
            | Self::AttemptLost { .. }
            | Self::EpochDecided { .. }
            | Self::EpochAcked { .. }
            | Self::Executed { .. }
            | Self::PublicationRequested { .. }
            | Self::Published { .. }
            | Self::Aborted { .. }
            | Self::ReplayNoted { .. }
            | Self::RecoveryRecorded(_)
            | Self::ExternallyExported(_) => None,
        }
    }
}

/// Every evaluation that an operation's events tell of, oldest first; none when they do not begin with a submission.
#[must_use]
pub fn evaluations(events: &[Event]) -> Vec<Evaluation> {
    let Some((first, rest)) = events.split_first() else { return Vec::new() };
    let Some(mut operation) = replay(std::slice::from_ref(first)) else { return Vec::new() };
    let mut found: Vec<_> = of(&operation, first).into_iter().collect();
    for event in rest {
        operation = evolve(operation, event);
        found.extend(of(&operation, event));
    }
    found
}

/// The evaluation of the last event of `operation`. An approval is asked about with itself among the approvals, and
/// nothing else that is evaluated adds one: what counts after the event is what was asked about.
fn of(operation: &Operation, event: &Event) -> Option<Evaluation> {
    let (moment, outcome) = event.change.evaluation()?;
    Some(Evaluation {
        seq: operation.revision,
        at_ms: event.at_ms,
        input: operation.request(moment, &operation.approvals).to_input(),
        outcome: outcome.clone(),
    })
}
