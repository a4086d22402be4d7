//! What an event makes of an operation. Total: an event that does not fit changes nothing but the count.

use super::Operation;
use super::event::{Change, Event, Submission};
use super::phase::Phase;
use crate::approval::Approval;
use crate::policy;
use crate::receipt::NodeReceipt;
use crate::time::EpochMs;

/// The operation that a list of events tells; none when it does not begin with a submission.
#[must_use]
pub fn replay(events: &[Event]) -> Option<Operation> {
    let (first, rest) = events.split_first()?;
    let Change::Submitted(submission) = &first.change else { return None };
    Some(rest.iter().fold(opened(submission, first.at_ms), evolve))
}

fn opened(submission: &Submission, at: EpochMs) -> Operation {
    Operation {
        id: submission.operation_id,
        revision: 1,
        tenant: submission.tenant.clone(),
        submitter: submission.submitter.clone(),
        intent: submission.intent.clone(),
        intent_hash: submission.intent_hash,
        key: submission.key.clone(),
        successor: submission.successor.clone(),
        body_digest: submission.body_digest,
        phase: Phase::Submitted,
        approvals: Vec::new(),
        late_approvals: Vec::new(),
        policy: submission.policy.clone(),
        admission: None,
        policy_receipt_id: String::new(),
        staged: None,
        result_ref: None,
        signature: None,
        publication_receipt: None,
        export: None,
        failure: None,
        settled: Vec::new(),
        replays: Vec::new(),
        recoveries: Vec::new(),
        created_at_ms: at,
        updated_at_ms: at,
    }
}

/// The operation after one more event.
#[must_use]
pub fn evolve(mut operation: Operation, event: &Event) -> Operation {
    operation.revision = operation.revision.saturating_add(1);
    operation.updated_at_ms = event.at_ms;
    operation.settled.extend(event.settles.clone());
    match &event.change {
        Change::Submitted(_) => {}
        Change::ReplayNoted { body_digest } => operation.replays.push(*body_digest),
        Change::ApprovalRequested { .. } => operation.phase = Phase::PendingApproval,
        Change::ApprovalRecorded { approval, policy } => counted(&mut operation, approval, policy),
        Change::ApprovalsWaived { policy } => operation.policy = policy.clone(),
        Change::LateApprovalRecorded { approval } => {
            operation.late_approvals.push(approval.subject_id.clone())
        }
        Change::QuorumReached => operation.phase = Phase::Deciding,
        Change::DecisionSigned { policy, admission } => {
            operation.policy = policy.clone();
            operation.admission = Some(admission.clone());
            operation.phase = Phase::Admitting;
        }
        Change::AdmissionApplied { .. } => operation.phase = Phase::Admitted,
        Change::ExecutionRequested { .. } => operation.phase = Phase::IssuingReceipt,
        Change::ReceiptMaterialized { policy_receipt_id, .. } => {
            operation.policy_receipt_id.clone_from(policy_receipt_id);
            operation.phase = Phase::ReceiptMaterialized;
        }
        Change::CeremonyStarted { attempt } => operation.phase = Phase::Executing { attempt: *attempt },
        Change::AttemptLost { attempt, .. } => {
            operation.phase = Phase::Executing { attempt: attempt.saturating_add(1) };
        }
        Change::EpochDecided { staged, .. } => {
            operation.staged = Some(staged.clone());
            let unacked = operation.plan().map(|plan| plan.receivers).unwrap_or_default();
            operation.phase = Phase::CommittingEpoch { attempt: 1, unacked };
        }
        Change::EpochAcked { receipts } => acked(&mut operation, receipts),
        Change::Executed { result_ref, signature, .. } => {
            operation.result_ref = Some(*result_ref);
            operation.signature.clone_from(signature);
            operation.phase = Phase::Executed;
        }
        Change::PublicationRequested { .. } => operation.phase = Phase::Publishing,
        Change::Published { publication_receipt, .. } => {
            operation.publication_receipt = Some(publication_receipt.clone());
            operation.phase = Phase::Published;
        }
        Change::Aborted { failure } => {
            operation.failure = Some(failure.clone());
            operation.phase = Phase::Discarding;
        }
        Change::Failed { failure, policy, .. } => {
            operation.failure = Some(failure.clone());
            operation.policy = policy.clone().unwrap_or(operation.policy);
            operation.phase = Phase::Failed;
        }
        Change::RecoveryRecorded(recovery) => operation.recoveries.push(recovery.clone()),
        Change::ExternallyExported(export) => operation.export = Some(export.clone()),
    }
    operation
}

fn counted(operation: &mut Operation, approval: &Approval, policy: &policy::Outcome) {
    operation.approvals.push(approval.clone());
    operation.policy = policy.clone();
}

fn acked(operation: &mut Operation, receipts: &[NodeReceipt]) {
    if let Phase::CommittingEpoch { attempt, unacked } = &mut operation.phase {
        *attempt = attempt.saturating_add(1);
        unacked.retain(|node| !receipts.iter().any(|receipt| receipt.participant == *node));
    }
}
