//! Approvals of an operation. The policy's outcome lists the subjects that count, and says whether the quorum is reached.

use super::command::Refusal;
use super::effect::Failure;
use super::event::Change;
use super::execute;
use super::phase::{Phase, State};
use super::postpone;
use super::state::Operation;
use crate::approval::{Approval, LapsedApproval};
use crate::intent::Intent;
use crate::names::{is_same_person, names_person};
use crate::policy::{self, Statement};
use crate::time::EpochMs;

/// The most late approvals recorded for one operation; further ones are answered but not recorded.
const LATE_APPROVALS_MAX: usize = 64;

/// Whether the operation waits for approvals and this person has neither approved nor rejected it yet.
#[must_use]
pub fn approval_is_open(operation: &Operation, person: &str) -> bool {
    matches!(operation.phase, Phase::Submitted | Phase::PendingApproval)
        && !operation.is_rejected_by(person)
        && !operation.is_approved_by(person)
}

/// The changes after a submission that this evaluation allowed.
pub(super) fn request(policy: &policy::Outcome, at: EpochMs) -> Vec<Change> {
    let quorum = &policy.quorum;
    let mut changes = vec![Change::ApprovalRequested { required: quorum.required }];
    if quorum.required == 0 && quorum.satisfied {
        changes.extend(quorum_reached(policy, at));
    }
    changes
}

/// The quorum of this evaluation is reached, which may postpone the admission.
fn quorum_reached(policy: &policy::Outcome, at: EpochMs) -> impl Iterator<Item = Change> {
    std::iter::once(Change::QuorumReached).chain(postpone::after_quorum(policy, at))
}

/// The changes that an approval causes. `policy` is the evaluation over all approvals including this one; it is not needed
/// when [`approval_is_open`] is false.
pub(super) fn decide(
    operation: &Operation,
    approval: &Approval,
    policy: Option<&policy::Outcome>,
    at: EpochMs,
) -> Result<Vec<Change>, Refusal> {
    if let (Some(failure), State::Failed) = (&operation.failure, operation.state()) {
        return Err(Refusal::Failed(failure.clone()));
    }
    if operation.is_rejected_by(approval.person()) {
        let (subject_id, reasons) =
            (approval.subject_id.clone(), vec!["it has rejected the operation".to_owned()]);
        return Err(Refusal::ApproverNotPermitted { subject_id, reasons });
    }
    if !approval_is_open(operation, approval.person()) {
        return Ok(record_late(operation, approval));
    }
    let Some(policy) = policy else { return Ok(Vec::new()) };
    if !policy.is_allowed() {
        return Err(Refusal::PolicyRejected { reasons: policy.reasons.clone() });
    }
    if !policy.quorum.counts(&approval.subject_id) {
        let mut reasons = reasons_for_approval(&operation.policy.reasons, &policy.reasons);
        let missing: Vec<_> = policy.quorum.missing().iter().map(ToString::to_string).collect();
        if reasons.is_empty() && !missing.is_empty() {
            reasons.push(format!("the policy gives no reason, and lacks {}", missing.join(" and ")));
        }
        return Err(Refusal::ApproverNotPermitted { subject_id: approval.subject_id.clone(), reasons });
    }
    let mut changes = vec![Change::ApprovalRecorded { approval: approval.clone(), policy: policy.clone() }];
    if policy.quorum.satisfied {
        changes.extend(quorum_reached(policy, at));
    }
    Ok(changes)
}

/// The reasons for this approval, without those for the operation: of the reasons `now`, those whose code was not among those
/// `before` this approval. If there are none, those that differ: a policy may use one code for both.
fn reasons_for_approval(before: &[Statement], now: &[Statement]) -> Vec<String> {
    let is_known = |reason: &Statement| before.iter().any(|known| known.code == reason.code);
    let new: Vec<_> = now.iter().filter(|reason| !is_known(reason)).map(ToString::to_string).collect();
    if !new.is_empty() {
        return new;
    }
    now.iter().filter(|reason| !before.contains(reason)).map(ToString::to_string).collect()
}

impl Operation {
    /// The approvals that count without those that have lapsed.
    #[must_use]
    pub fn approvals_without(&self, lapsed: &[LapsedApproval]) -> Vec<Approval> {
        let counts = |approval: &&Approval| {
            !lapsed.iter().any(|one| is_same_person(&one.subject_id, &approval.subject_id))
        };
        self.approvals.iter().filter(counts).cloned().collect()
    }
}

/// The changes when approvals no longer count: the operation waits for others, unless those that are left are enough. `policy` is the
/// evaluation over those. None if none of them counted, or the decision is made.
pub(super) fn lapse(
    operation: &Operation,
    lapsed: &[LapsedApproval],
    policy: &policy::Outcome,
    at: EpochMs,
) -> Vec<Change> {
    let waits = matches!(operation.phase, Phase::PendingApproval | Phase::Deciding | Phase::Postponed { .. });
    let n_left = operation.approvals_without(lapsed).len();
    // Each of them counted, and is named once.
    if !waits || lapsed.is_empty() || n_left.saturating_add(lapsed.len()) != operation.approvals.len() {
        return Vec::new();
    }
    let mut changes = vec![Change::ApprovalsLapsed { lapsed: lapsed.to_vec(), policy: policy.clone() }];
    if policy.is_allowed() && policy.quorum.satisfied {
        changes.extend(quorum_reached(policy, at));
    }
    changes
}

/// Waives the approvals of a key creation that the policy allows without any.
pub(super) fn waive(operation: &Operation, policy: &policy::Outcome, at: EpochMs) -> Vec<Change> {
    let waits = operation.phase == Phase::PendingApproval && matches!(operation.intent, Intent::KeyCreate(_));
    if !waits || !policy.is_allowed() || !policy.quorum.satisfied || policy.quorum.required > 0 {
        return Vec::new();
    }
    let waived = std::iter::once(Change::ApprovalsWaived { policy: policy.clone() });
    waived.chain(quorum_reached(policy, at)).collect()
}

/// Records a person's first approval after the quorum. A person's second approval changes nothing.
fn record_late(operation: &Operation, approval: &Approval) -> Vec<Change> {
    let has_approved = operation.is_approved_by(approval.person())
        || names_person(&operation.late_approvals, &approval.subject_id);
    if has_approved || operation.late_approvals.len() >= LATE_APPROVALS_MAX {
        return Vec::new();
    }
    vec![Change::LateApprovalRecorded { approval: approval.clone() }]
}

/// Fails an operation that has no quorum, or no decision, within `approval_ttl_ms` of its submission, without the time for which it was
/// postponed; or that was not executed while its decision was valid. While it is postponed it does not fail.
pub(super) fn expire(operation: &Operation, at: EpochMs, approval_ttl_ms: u64) -> Vec<Change> {
    if operation.phase == Phase::Admitted {
        return execute::expire(operation, at).into_iter().collect();
    }
    let is_postponed = matches!(operation.phase, Phase::Postponed { .. });
    if is_postponed || operation.approvals_expire_at(approval_ttl_ms).is_none_or(|expiry| at < expiry) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(before: &[(&str, &str)], now: &[(&str, &str)]) -> Vec<String> {
        let statements = |pairs: &[(&str, &str)]| -> Vec<Statement> {
            pairs.iter().map(|(code, value)| Statement::with_operand(*code, "is", *value)).collect()
        };
        reasons_for_approval(&statements(before), &statements(now))
    }

    #[test]
    fn uncounted_approver_reads_the_reasons_for_the_approval_only() {
        // The totals of a velocity limit have changed since the submission.
        let before = [("recipient_permitted", "acct-2"), ("within_limits", "10 of 100")];
        let now = [("recipient_permitted", "acct-2"), ("within_limits", "60 of 100"), ("not_counted", "own")];
        assert_eq!(reasons(&before, &now), ["not_counted: is own"]);
        assert_eq!(reasons(&before, &before), [""; 0]);
        let one_code = [("checked", "the amount"), ("checked", "the approver is the submitter")];
        assert_eq!(reasons(&one_code[..1], &one_code), ["checked: is the approver is the submitter"]);
    }
}
