//! Postponed admissions: the policy allows an operation whose quorum is reached, but not before a time (`admit_not_before`). Until then
//! no decision is asked for; at that time the policy is evaluated again, and may postpone the admission again.

use super::event::{Change, Event};
use super::phase::Phase;
use super::state::Operation;
use crate::approval::limits::CLOCK_SKEW_MS;
use crate::policy;
use crate::time::EpochMs;

impl Operation {
    /// The time before which the policy does not allow the admission, while the operation waits for it.
    #[must_use]
    pub const fn admit_not_before(&self) -> Option<EpochMs> {
        if let Phase::Postponed { until_ms, .. } = self.phase { Some(until_ms) } else { None }
    }

    /// The time since when it waits for that.
    pub(super) const fn postponed_since(&self) -> Option<EpochMs> {
        if let Phase::Postponed { since_ms, .. } = self.phase { Some(since_ms) } else { None }
    }
}

/// The change after the quorum is reached with this evaluation, if that postpones the admission.
pub(super) fn after_quorum(policy: &policy::Outcome, at: EpochMs) -> Option<Change> {
    let until_ms = policy.postpones_until(at)?;
    Some(Change::AdmissionPostponed { until_ms, policy: None })
}

/// The changes when this evaluation at the admission postpones it; none if it does not, or no decision is owed.
pub(super) fn postpone(operation: &Operation, policy: &policy::Outcome, at: EpochMs) -> Vec<Change> {
    let is_allowed = policy.is_allowed() && policy.quorum.satisfied;
    let until = policy.postpones_until(at).filter(|_| is_allowed && operation.phase == Phase::Deciding);
    let postponed = |until_ms| Change::AdmissionPostponed { until_ms, policy: Some(policy.clone()) };
    until.map(postponed).into_iter().collect()
}

/// The changes when the time of a postponed admission is reached; none before.
pub(super) fn resume(operation: &Operation, at: EpochMs) -> Vec<Change> {
    match operation.admit_not_before() {
        Some(until) if at >= until => vec![Change::AdmissionResumed],
        Some(_) | None => Vec::new(),
    }
}

/// The changes that the evaluation behind an `AdmissionPostponed` event causes.
pub(super) fn postponed(before: &Operation, policy: Option<&policy::Outcome>, at: EpochMs) -> Vec<Change> {
    match policy {
        Some(policy) => postpone(before, policy, at),
        None => after_quorum(&before.policy, at).into_iter().collect(),
    }
}

/// Why a gateway cannot have written this event, by the times in the policy's obligations.
pub(super) fn contradiction(before: &Operation, event: &Event) -> Option<&'static str> {
    let at = event.at_ms;
    let is_postponed = before.phase == Phase::Deciding && before.policy.postpones_until(at).is_some();
    match &event.change {
        Change::AdmissionPostponed { .. } => None,
        _ if is_postponed => Some("the policy postpones the admission"),
        Change::DecisionSigned { policy, .. } => {
            // The decision took a while after the evaluation.
            let evaluated_at = EpochMs(at.0.saturating_sub(CLOCK_SKEW_MS));
            if policy.postpones_until(at).is_some() {
                Some("the policy does not allow the admission before a later time")
            } else if policy.time_limits().outlived(&before.approvals, evaluated_at).is_empty() {
                None
            } else {
                Some("an approval is older than the policy lets it count")
            }
        }
        _ => None,
    }
}
