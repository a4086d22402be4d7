//! Policy evaluations of an operation, reconstructed from its events.
//!
//! Events that record an evaluation store its [`policy::Outcome`], but not its input, which would repeat the submission. The
//! input is reconstructed from the events up to it.

use super::event::{Change, Event};
use super::state::{Operation, evolve, replay};
use crate::approval::Approval;
use crate::policy::{self, Input, Moment, Request};
use crate::time::EpochMs;
use std::borrow::Cow;

/// A policy evaluation recorded by one of the operation's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The event's sequence number, from 1; the operation's revision after the event.
    pub seq: u64,
    /// The time of the event.
    pub at_ms: EpochMs,
    /// The policy's input. Its digest is the outcome's `input_hash`.
    pub input: Input,
    /// The policy's outcome.
    pub outcome: policy::Outcome,
}

impl Operation {
    /// The policy request for this operation with these approvals.
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
    /// The policy's outcome, if this change records one, and the moment (submission, approval or admission) of the
    /// evaluation.
    #[must_use]
    pub fn evaluation(&self) -> Option<(Moment, &policy::Outcome)> {
        match self {
            Self::Submitted(submission) => Some((Moment::Submit, &submission.policy)),
            Self::ApprovalRecorded { policy, .. }
            | Self::ApprovalsLapsed { policy, .. }
            | Self::ApprovalsWaived { policy } => Some((Moment::Approval, policy)),
            Self::RejectionRecorded { policy, .. } => {
                policy.as_ref().map(|policy| (Moment::Approval, policy))
            }
            Self::DecisionSigned { policy, .. } => Some((Moment::Admission, policy)),
            // Has an outcome only if the policy denied the admission, or postponed it at its moment.
            Self::Failed { policy, .. } | Self::AdmissionPostponed { policy, .. } => {
                policy.as_ref().map(|policy| (Moment::Admission, policy))
            }
            Self::ApprovalRequested { .. }
            | Self::LateApprovalRecorded { .. }
            | Self::QuorumReached
            | Self::AdmissionResumed
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
            | Self::DiscardAcked { .. }
            | Self::NodesGivenUp { .. }
            | Self::ReplayNoted { .. }
            | Self::RecoveryRecorded(_)
            | Self::ExternallyExported(_) => None,
        }
    }
}

/// All evaluations in an operation's events, oldest first; empty when the events do not begin with a submission.
#[must_use]
pub fn evaluations(events: &[Event]) -> Vec<Evaluation> {
    let Some((first, rest)) = events.split_first() else { return Vec::new() };
    let Some(mut operation) = replay(std::slice::from_ref(first)) else { return Vec::new() };
    let mut found: Vec<_> = stored_evaluation(&operation, first).into_iter().collect();
    for event in rest {
        operation = evolve(operation, event);
        found.extend(stored_evaluation(&operation, event));
    }
    found
}

/// The evaluation stored in `event`, which is the last event of `operation`. Its input has the approvals after the
/// event: an approval is evaluated together with the earlier ones, and no other event with an evaluation adds an
/// approval. A rejection is evaluated as if its subject approved.
fn stored_evaluation(operation: &Operation, event: &Event) -> Option<Evaluation> {
    let (moment, outcome) = event.change.evaluation()?;
    let mut approvals = Cow::Borrowed(&operation.approvals);
    if let Change::RejectionRecorded { rejection, .. } = &event.change {
        approvals.to_mut().push(rejection.as_approval());
    }
    Some(Evaluation {
        seq: operation.revision,
        at_ms: event.at_ms,
        input: operation.request(moment, &approvals).to_input(),
        outcome: outcome.clone(),
    })
}
