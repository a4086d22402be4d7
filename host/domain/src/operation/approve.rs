//! Approvals of an operation. The policy's outcome lists the subjects that count, and says whether the quorum is reached.

use super::command::Refusal;
use super::effect::Failure;
use super::event::Change;
use super::phase::{Phase, State};
use super::state::Operation;
use crate::approval::Approval;
use crate::intent::Intent;
use crate::policy;
use crate::time::EpochMs;

/// The most late approvals recorded for one operation; further ones are answered but not recorded.
const LATE_APPROVALS_MAX: usize = 64;

/// Whether the operation waits for approvals and this subject has not approved it yet.
#[must_use]
pub fn approval_is_open(operation: &Operation, subject_id: &str) -> bool {
    matches!(operation.phase, Phase::Submitted | Phase::PendingApproval)
        && !operation.approvals.iter().any(|approval| approval.subject_id == subject_id)
}

/// The changes that an approval causes. `policy` is the evaluation over all approvals including this one; it is not needed
/// when [`approval_is_open`] is false.
pub(super) fn decide(
    operation: &Operation,
    approval: &Approval,
    policy: Option<&policy::Outcome>,
) -> Result<Vec<Change>, Refusal> {
    if let (Some(failure), State::Failed) = (&operation.failure, operation.state()) {
        return Err(Refusal::Failed(failure.clone()));
    }
    if !approval_is_open(operation, &approval.subject_id) {
        return Ok(record_late(operation, approval));
    }
    let Some(policy) = policy else { return Ok(Vec::new()) };
    if !policy.is_allowed() {
        return Err(Refusal::PolicyRejected { reasons: policy.reason_texts() });
    }
    if !policy.quorum.subjects.contains(&approval.subject_id) {
        return Err(Refusal::ApproverNotPermitted {
            subject_id: approval.subject_id.clone(),
            reasons: new_reasons(operation, policy),
        });
    }
    let mut changes = vec![Change::ApprovalRecorded { approval: approval.clone(), policy: policy.clone() }];
    if policy.quorum.satisfied {
        changes.push(Change::QuorumReached);
    }
    Ok(changes)
}

/// The policy's reasons that it did not have at its last evaluation before this approval: those for this approval, without those
/// for the operation.
fn new_reasons(operation: &Operation, policy: &policy::Outcome) -> Vec<String> {
    let is_new = |reason: &&policy::Statement| !operation.policy.reasons.contains(reason);
    policy.reasons.iter().filter(is_new).map(ToString::to_string).collect()
}

/// Waives the approvals of a key creation that the policy allows without any.
pub(super) fn waive(operation: &Operation, policy: &policy::Outcome) -> Vec<Change> {
    let waits = operation.phase == Phase::PendingApproval && matches!(operation.intent, Intent::KeyCreate(_));
    if !waits || !policy.is_allowed() || !policy.quorum.satisfied || policy.quorum.required > 0 {
        return Vec::new();
    }
    vec![Change::ApprovalsWaived { policy: policy.clone() }, Change::QuorumReached]
}

/// Records a subject's first approval after the quorum. A subject's second approval changes nothing.
fn record_late(operation: &Operation, approval: &Approval) -> Vec<Change> {
    let has_approved = operation.approvals.iter().any(|earlier| earlier.subject_id == approval.subject_id)
        || operation.late_approvals.contains(&approval.subject_id);
    if has_approved || operation.late_approvals.len() >= LATE_APPROVALS_MAX {
        return Vec::new();
    }
    vec![Change::LateApprovalRecorded { approval: approval.clone() }]
}

/// Fails an operation that has no quorum, or no decision, within `approval_ttl_ms` of its submission.
pub(super) fn expire(operation: &Operation, at: EpochMs, approval_ttl_ms: u64) -> Vec<Change> {
    if operation.approvals_expire_at(approval_ttl_ms).is_none_or(|expiry| at < expiry) {
        return Vec::new();
    }
    let missing = if operation.phase == Phase::Deciding { "decision" } else { "quorum" };
    let failure = Failure {
        code: "approval_expired".to_owned(),
        detail: format!("no {missing} within {approval_ttl_ms} ms of submission"),
        culprits: Vec::new(),
    };
    vec![Change::Failed { failure, policy: None, receipts: Vec::new() }]
}
