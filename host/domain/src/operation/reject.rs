//! Ends of an operation by people: approvers reject it before it is admitted, and abort a change of a key after that; its submitter cancels
//! it before.

use super::abort;
use super::command::Refusal;
use super::effect::Failure;
use super::event::{Change, Event};
use super::phase::{Phase, State};
use super::state::Operation;
use crate::approval::Rejection;
use crate::binding::ClientBinding;
use crate::names::is_same_person;
use crate::policy::{self, Statement};

/// The code of an operation that was rejected.
const REJECTED: &str = "rejected";

/// The code of an operation that was cancelled.
const CANCELLED: &str = "cancelled";

impl Operation {
    /// Whether approvers may reject it, and its submitter may cancel it.
    #[must_use]
    pub const fn may_be_rejected(&self) -> bool {
        matches!(
            self.phase,
            Phase::Submitted | Phase::PendingApproval | Phase::Deciding | Phase::Postponed { .. }
        )
    }

    /// Whether an approval of the person counts.
    #[must_use]
    pub fn is_approved_by(&self, person: &str) -> bool {
        self.approvals.iter().any(|approval| is_same_person(approval.person(), person))
    }

    /// Whether an approval under this subject id counts.
    #[must_use]
    pub fn has_approval_of(&self, subject_id: &str) -> bool {
        self.approvals.iter().any(|approval| is_same_person(&approval.subject_id, subject_id))
    }

    /// Whether the person has rejected it, or asked for its abort.
    #[must_use]
    pub fn is_rejected_by(&self, person: &str) -> bool {
        self.rejections.iter().any(|rejection| is_same_person(rejection.person(), person))
    }

    /// The rejections that want the same as this one: that it does not go on, or that it does without the same receivers.
    fn rejections_like(&self, rejection: &Rejection) -> impl Iterator<Item = &Rejection> {
        self.rejections.iter().filter(|other| other.lost == rejection.lost)
    }

    /// Whether the person has rejected it so before: then its next one changes nothing, unless it comes too late to count.
    fn has_rejection_like(&self, rejection: &Rejection) -> bool {
        let code = if rejection.lost.is_some() { abort::ABORTED } else { REJECTED };
        let has_ended_so = self.failure.as_ref().is_some_and(|failure| failure.code == code);
        let still_counts = if rejection.lost.is_some() { self.may_abort() } else { self.may_be_rejected() };
        let is_own = |other: &Rejection| is_same_person(other.person(), rejection.person());
        self.rejections_like(rejection).any(is_own) && (still_counts || has_ended_so)
    }

    /// Whether its last rejection, with this evaluation, was the last one needed.
    fn is_rejected_enough(&self, rejection: &Rejection, policy: Option<&policy::Outcome>) -> bool {
        self.rejections_like(rejection).count() >= policy.unwrap_or(&self.policy).rejections_required()
    }

    /// Whether it still has to be found out, by the policy, whether this person may reject or abort it: it may if it has approved it.
    #[must_use]
    pub fn needs_evaluation_of(&self, person: &str) -> bool {
        (self.may_be_rejected() || self.may_abort())
            && !self.is_rejected_by(person)
            && !self.is_approved_by(person)
    }
}

/// The changes that a rejection or an abort causes; none for a repeat. `policy` is the evaluation over the approvals so far and one of this subject;
/// it is not needed when [`Operation::needs_evaluation_of`] is false.
pub(super) fn decide(
    operation: &Operation,
    rejection: &Rejection,
    policy: Option<&policy::Outcome>,
) -> Result<Vec<Change>, Refusal> {
    let subject_id = &rejection.subject_id;
    if operation.has_rejection_like(rejection) {
        return Ok(Vec::new());
    }
    let ends = ends(operation, rejection)?;
    if ends.is_empty() {
        return Ok(ends);
    }
    if operation.needs_evaluation_of(rejection.person()) {
        let counts = policy.is_some_and(|policy| policy.quorum.counts(subject_id));
        if !counts {
            let reasons = policy.map(|policy| policy.reasons.iter().map(Statement::to_string).collect());
            return Err(Refusal::ApproverNotPermitted {
                subject_id: subject_id.clone(),
                reasons: reasons.unwrap_or_default(),
            });
        }
    }
    let latest = policy.unwrap_or(&operation.policy);
    let mut changes =
        vec![Change::RejectionRecorded { rejection: rejection.clone(), policy: policy.cloned() }];
    let n_before = operation.rejections_like(rejection).count();
    if n_before.saturating_add(1) >= latest.rejections_required() {
        changes.extend(ends);
    }
    Ok(changes)
}

/// The changes that the last rejection or abort needed causes.
fn ends(operation: &Operation, rejection: &Rejection) -> Result<Vec<Change>, Refusal> {
    let Rejection { subject_id, reason, lost, .. } = rejection;
    match lost {
        None => {
            check_not_admitted(operation)?;
            Ok(vec![failed(REJECTED, subject_id, reason)])
        }
        Some(lost) => abort::changes(operation, subject_id, reason, lost),
    }
}

/// The changes that a cancellation causes; none for a repeat. `client` is the caller, as far as it is known: without authentication it may
/// be anyone.
pub(super) fn cancel(
    operation: &Operation,
    client: Option<&ClientBinding>,
    reason: &str,
) -> Result<Vec<Change>, Refusal> {
    if !is_submitter(operation, client) {
        return Err(Refusal::NotSubmitter);
    }
    if operation.failure.as_ref().is_some_and(|failure| failure.code == CANCELLED) {
        return Ok(Vec::new());
    }
    check_not_admitted(operation)?;
    Ok(vec![failed(CANCELLED, &operation.submitter.subject_id, reason)])
}

/// Why a gateway cannot have written this event, by the rules on rejections, aborts and cancellations: for readers that do not trust the
/// writer of a history. `previous` is the change before it.
#[must_use]
pub fn contradicts_ends(
    before: &Operation,
    previous: Option<&Change>,
    event: &Event,
) -> Option<&'static str> {
    let ended = match previous {
        Some(Change::RejectionRecorded { rejection, policy })
            if before.is_rejected_enough(rejection, policy.as_ref()) =>
        {
            ends(before, rejection).ok()
        }
        _ => None,
    };
    let code = match &event.change {
        Change::Failed { failure, .. } | Change::Aborted { failure } => Some(failure.code.as_str()),
        _ => None,
    };
    let contradiction = match &ended {
        Some(changes) => changes.first() != Some(&event.change),
        // The failure of an operation that was aborted before is not another abort.
        None => {
            code == Some(REJECTED)
                || (code == Some(abort::ABORTED) && before.failure.is_none())
                || matches!(event.change, Change::NodesGivenUp { .. })
        }
    };
    if contradiction {
        return Some(
            "an operation is rejected or aborted after the last rejection or abort needed, as that one says, and only then",
        );
    }
    match &event.change {
        Change::RejectionRecorded { rejection, policy } => {
            let subject_id = &rejection.subject_id;
            if before.has_rejection_like(rejection) {
                return Some("the subject has rejected before");
            }
            let counts = policy.as_ref().is_some_and(|policy| policy.quorum.counts(subject_id));
            (before.needs_evaluation_of(rejection.person()) && !counts)
                .then_some("the policy does not count the subject")
        }
        Change::ApprovalRecorded { approval, .. } if before.is_rejected_by(approval.person()) => {
            Some("the subject has rejected before")
        }
        Change::Failed { .. } if code == Some(CANCELLED) => {
            let client = event.requested_by.as_ref().and_then(|requester| requester.client.as_ref());
            let may_cancel = before.may_be_rejected() && is_submitter(before, client);
            (!may_cancel).then_some("only the submitter cancels, before the admission")
        }
        _ => None,
    }
}

/// Whether the caller is the submitter, as far as it is known.
fn is_submitter(operation: &Operation, client: Option<&ClientBinding>) -> bool {
    let submitter = &operation.submitter;
    client.is_none_or(|client| {
        client.client_id == submitter.client_id && is_same_person(&client.subject_id, &submitter.subject_id)
    })
}

fn check_not_admitted(operation: &Operation) -> Result<(), Refusal> {
    if operation.may_be_rejected() {
        return Ok(());
    }
    if operation.state() == State::Failed {
        Err(Refusal::Failed(operation.reason_of_failure()))
    } else {
        Err(Refusal::Admitted)
    }
}

fn failed(code: &str, by: &str, reason: &str) -> Change {
    Change::Failed { failure: Failure::said_by(code, by, reason), policy: None, receipts: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::PublicationMode;
    use crate::operation::{Action, Command, evolve, open, replay};
    use crate::policy::REJECTIONS_REQUIRED;
    use crate::testing::samples::{Kind, intent, submission, verdict};
    use crate::time::EpochMs;

    fn pending(approved_by: &[&str]) -> Operation {
        let events = open(submission(intent(Kind::Payment, PublicationMode::Manual), 3), EpochMs(1));
        let mut operation = replay(&events).unwrap();
        for subject in approved_by {
            let approval = rejection(subject).as_approval();
            let policy = operation.policy.clone();
            let change = Change::ApprovalRecorded { approval, policy };
            operation =
                evolve(operation, &Event { at_ms: EpochMs(2), change, requested_by: None, settles: None });
        }
        operation
    }

    fn rejection(subject: &str) -> Rejection {
        Rejection {
            subject_id: subject.to_owned(),
            roles: vec!["approver".to_owned()],
            registered: None,
            reason: "not our supplier".to_owned(),
            lost: None,
            claimed_at_ms: 3,
            rejected_at_ms: EpochMs(3),
            signature: None,
        }
    }

    /// The policy's answer that counts this subject, with this obligation.
    fn counting(operation: &Operation, subject: &str, required: Option<&str>) -> policy::Outcome {
        let verdict = verdict(&[subject.to_owned()], 3);
        let mut outcome = operation.policy.clone();
        outcome.quorum = verdict.quorum;
        outcome.obligations = required
            .map(|number| Statement::with_operand(REJECTIONS_REQUIRED, "rejections", number))
            .into_iter()
            .collect();
        outcome
    }

    fn after(operation: &Operation, action: Action) -> Result<(usize, Operation), Refusal> {
        let events = crate::operation::decide(operation, &Command { at: EpochMs(4), action })?;
        Ok((events.len(), events.iter().fold(operation.clone(), evolve)))
    }

    fn reject(
        operation: &Operation,
        subject: &str,
        policy: Option<policy::Outcome>,
    ) -> Result<(usize, Operation), Refusal> {
        after(operation, Action::Reject { rejection: rejection(subject), policy })
    }

    fn code(operation: &Operation) -> &str {
        operation.failure.as_ref().map_or("", |failure| failure.code.as_str())
    }

    #[test]
    fn one_rejection_ends_an_operation_and_repeats_change_nothing() {
        for required in [None, Some("1"), Some("0"), Some("several"), Some("-1")] {
            let operation = pending(&["alice"]);
            let policy = counting(&operation, "bob", required);
            let (n_events, rejected) = reject(&operation, "bob", Some(policy)).unwrap();
            assert_eq!(
                (n_events, rejected.state(), code(&rejected)),
                (2, State::Failed, "rejected"),
                "{required:?}"
            );
            assert_eq!(rejected.failure.as_ref().unwrap().detail, "rejected by `bob`: not our supplier");
            assert_eq!(reject(&rejected, "bob", None).unwrap().0, 0, "a repeat");
            assert!(matches!(reject(&rejected, "carol", None), Err(Refusal::Failed(_))));
        }
    }

    #[test]
    fn policy_says_how_many_rejections_end_an_operation() {
        let operation = pending(&["alice"]);
        let policy = counting(&operation, "bob", Some("2"));
        let (n_events, once) = reject(&operation, "bob", Some(policy.clone())).unwrap();
        assert_eq!((n_events, once.state()), (1, State::PendingApproval));
        assert_eq!(reject(&once, "bob", None).unwrap().0, 0, "a repeat does not count twice");
        let approve = Action::Approve { approval: rejection("bob").as_approval(), policy: Some(policy) };
        assert!(
            matches!(after(&once, approve), Err(Refusal::ApproverNotPermitted { .. })),
            "it has rejected"
        );
        let mut admitted = once.clone();
        admitted.phase = Phase::Admitted;
        assert_eq!(
            reject(&admitted, "bob", None).unwrap_err(),
            Refusal::Admitted,
            "he must not believe that it is rejected"
        );
        let policy = counting(&once, "carol", Some("2"));
        let (_, twice) = reject(&once, "carol", Some(policy)).unwrap();
        assert_eq!((twice.rejections.len(), code(&twice)), (2, "rejected"));
    }

    #[test]
    fn only_those_reject_whose_approval_would_count_or_does() {
        let operation = pending(&["alice"]);
        assert!(reject(&operation, "alice", None).is_ok(), "it has approved");
        let others = counting(&operation, "bob", None);
        for policy in [None, Some(others)] {
            let refused = reject(&operation, "mallory", policy);
            assert!(matches!(refused, Err(Refusal::ApproverNotPermitted { .. })), "{refused:?}");
        }
    }

    #[test]
    fn person_under_another_spelling_approves_and_rejects_as_the_same_person() {
        let operation = pending(&["Ren\u{e9}e"]);
        for spelling in ["rene\u{301}e", "REN\u{c9}E", " ren\u{e9}e"] {
            let approval = rejection(spelling).as_approval();
            let policy = counting(&operation, spelling, None);
            let again = Action::Approve { approval: approval.clone(), policy: Some(policy) };
            assert_eq!(after(&operation, again).unwrap().0, 0, "counted once: {spelling}");
            assert!(!operation.needs_evaluation_of(spelling) && operation.is_approved_by(spelling));
            assert!(!crate::operation::approval_is_open(&operation, spelling));
            let mut admitted = operation.clone();
            admitted.phase = Phase::Admitted;
            let late = Action::Approve { approval, policy: None };
            assert_eq!(after(&admitted, late).unwrap().0, 0, "a late approval of one who has approved");
        }
        let policy = counting(&operation, "bob", Some("3"));
        let (_, once) = reject(&operation, "bob", Some(policy)).unwrap();
        assert_eq!(reject(&once, "BOB", None).unwrap().0, 0, "a repeat");
        let approve = Action::Approve { approval: rejection("Bob").as_approval(), policy: None };
        assert!(
            matches!(after(&once, approve), Err(Refusal::ApproverNotPermitted { .. })),
            "it has rejected"
        );
        let counted = counting(&operation, "Dora", None);
        assert!(reject(&operation, "dora", Some(counted)).is_ok(), "the policy counts this person");
        let client = ClientBinding { subject_id: "CAROL".to_owned(), ..operation.submitter.clone() };
        let cancel = Action::Cancel { client: Some(client), reason: "twice".to_owned() };
        assert_eq!(code(&after(&operation, cancel).unwrap().1), "cancelled", "the submitter");
    }

    #[test]
    fn submitter_cancels_before_admission_and_no_one_else() {
        let operation = pending(&["alice"]);
        let submitter = operation.submitter.clone();
        let cancel = |operation: &Operation, client: &ClientBinding| {
            after(operation, Action::Cancel { client: Some(client.clone()), reason: "twice".to_owned() })
        };
        let mut other = submitter.clone();
        other.subject_id.push('x');
        assert_eq!(cancel(&operation, &other).unwrap_err(), Refusal::NotSubmitter);
        let mut other = submitter.clone();
        other.client_id.push('x');
        assert_eq!(cancel(&operation, &other).unwrap_err(), Refusal::NotSubmitter);
        let (n_events, cancelled) = cancel(&operation, &submitter).unwrap();
        assert_eq!((n_events, code(&cancelled)), (1, "cancelled"));
        assert_eq!(cancel(&cancelled, &submitter).unwrap().0, 0, "a repeat");
        assert!(matches!(reject(&cancelled, "alice", None), Err(Refusal::Failed(_))));
        let (_, rejected) = reject(&operation, "alice", None).unwrap();
        assert!(matches!(cancel(&rejected, &submitter), Err(Refusal::Failed(_))));
        let mut admitted = operation;
        admitted.phase = Phase::Admitted;
        assert_eq!(cancel(&admitted, &submitter).unwrap_err(), Refusal::Admitted);
        assert_eq!(reject(&admitted, "alice", None).unwrap_err(), Refusal::Admitted);
    }
}
