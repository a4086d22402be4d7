//! Admissions that the policy allows only at a later time.

use crate::approval::limits::CLOCK_SKEW_MS;
use crate::intent::PublicationMode;
use crate::operation::{
    Action, Change, Command, Event, NextAction, Operation, Phase, Refusal, State, Step, contradicts_content,
    decide, evolve, may_follow, next, open, replay,
};
use crate::policy::{ADMIT_NOT_BEFORE, APPROVALS_EXPIRE_MS, Decision, Outcome, Statement};
use crate::testing::samples::{Kind, admission, approval, intent, submission, verdict};
use crate::time::EpochMs;

/// The time of submission, and of every wait's beginning.
const NOW: EpochMs = EpochMs(1_000);

fn pending() -> Operation {
    replay(&open(submission(intent(Kind::Payment, PublicationMode::Manual), 1), NOW)).unwrap()
}

/// An evaluation that counts alice, with this obligation.
fn allowing(code: &str, operand: &str, value: u64) -> Outcome {
    let mut outcome = verdict(&["alice".to_owned()], 1);
    outcome.obligations = vec![Statement::with_operand(code, operand, value.to_string())];
    outcome
}

fn not_before(at_ms: u64) -> Outcome {
    allowing(ADMIT_NOT_BEFORE, "at_ms", at_ms)
}

fn decided(operation: &Operation, at: u64, action: Action) -> Result<Vec<Event>, Refusal> {
    decide(operation, &Command { at: EpochMs(at), action })
}

fn after(operation: &Operation, events: &[Event]) -> Operation {
    events.iter().fold(operation.clone(), evolve)
}

/// The operation after alice's approval at [`NOW`], evaluated so.
fn approved(policy: Outcome) -> Operation {
    let operation = pending();
    let action = Action::Approve { approval: approval("alice", NOW), policy: Some(policy) };
    after(&operation, &decided(&operation, NOW.0, action).unwrap())
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.change.name()).collect()
}

#[test]
fn last_approval_that_the_policy_postpones_reaches_the_quorum_and_owes_no_decision() {
    let operation = pending();
    for (at_ms, expected) in [
        (0, vec!["approval_recorded", "quorum_reached"]),
        (1_000, vec!["approval_recorded", "quorum_reached"]),
        (1_001, vec!["approval_recorded", "quorum_reached", "admission_postponed"]),
    ] {
        let policy = Some(not_before(at_ms));
        let action = Action::Approve { approval: approval("alice", NOW), policy };
        let events = decided(&operation, NOW.0, action).unwrap();
        assert_eq!(names(&events), expected);
        let is_postponed = at_ms > NOW.0;
        assert_eq!(next(&after(&operation, &events)) == Step::Rest, is_postponed);
    }
    let waiting = approved(not_before(5_000));
    assert_eq!(waiting.phase, Phase::Postponed { since_ms: NOW, until_ms: EpochMs(5_000) });
    assert_eq!((waiting.state(), waiting.admit_not_before()), (State::PendingApproval, Some(EpochMs(5_000))));
    assert_eq!(waiting.next_actions(), [NextAction::Execute]);
}

#[test]
fn submission_without_approvals_is_postponed_too() {
    let mut submission = submission(intent(Kind::Payment, PublicationMode::Manual), 0);
    submission.policy.obligations = not_before(1_001).obligations;
    let events = open(submission, NOW);
    assert_eq!(names(&events)[1..], ["approval_requested", "quorum_reached", "admission_postponed"]);
}

#[test]
fn admission_is_postponed_only_by_an_evaluation_that_allows_it_later() {
    let deciding = approved(verdict(&["alice".to_owned()], 1));
    let postponed = |policy: Outcome| {
        let events = decided(&deciding, 2_000, Action::PostponeAdmission { policy }).unwrap();
        names(&events)
    };
    assert_eq!(postponed(not_before(2_001)), ["admission_postponed"]);
    assert_eq!(postponed(not_before(2_000)), [""; 0], "the time is reached");
    assert_eq!(postponed(verdict(&["alice".to_owned()], 1)), [""; 0], "no obligation");
    assert_eq!(postponed(Outcome { decision: Decision::Deny, ..not_before(2_001) }), [""; 0]);
    let mut unsatisfied = not_before(2_001);
    unsatisfied.quorum.satisfied = false;
    assert_eq!(postponed(unsatisfied), [""; 0]);
    let action = Action::PostponeAdmission { policy: not_before(2_001) };
    assert_eq!(decided(&pending(), 2_000, action), Ok(vec![]), "no quorum");
}

#[test]
fn waiting_operation_resumes_at_its_time_and_owes_the_decision() {
    let waiting = approved(not_before(5_000));
    assert_eq!(decided(&waiting, 4_999, Action::ResumeAdmission), Ok(vec![]));
    let events = decided(&waiting, 5_000, Action::ResumeAdmission).unwrap();
    assert_eq!(names(&events), ["admission_resumed"]);
    let deciding = after(&waiting, &events);
    assert_eq!((&deciding.phase, deciding.postponed_ms), (&Phase::Deciding, 4_000));
    assert!(matches!(next(&deciding), Step::Perform(_)));
    let again = Action::PostponeAdmission { policy: not_before(9_000) };
    let waiting = after(&deciding, &decided(&deciding, 5_500, again).unwrap());
    let resumed = after(&waiting, &decided(&waiting, 9_100, Action::ResumeAdmission).unwrap());
    assert_eq!(resumed.postponed_ms, 4_000 + 3_600, "both waits, to the events that ended them");
}

#[test]
fn waiting_operation_takes_late_approvals_rejections_and_a_cancellation() {
    let waiting = approved(not_before(5_000));
    let late = Action::Approve { approval: approval("bob", EpochMs(2_000)), policy: None };
    let events = decided(&waiting, 2_000, late).unwrap();
    assert_eq!(names(&events), ["late_approval_recorded"]);
    assert_eq!(after(&waiting, &events).phase, waiting.phase);
    let rejection = crate::approval::Rejection {
        subject_id: "alice".to_owned(),
        roles: vec![],
        registered: None,
        reason: "no".to_owned(),
        lost: None,
        claimed_at_ms: 2_000,
        rejected_at_ms: EpochMs(2_000),
        signature: None,
    };
    let events = decided(&waiting, 2_000, Action::Reject { rejection, policy: None }).unwrap();
    assert_eq!(names(&events), ["rejection_recorded", "failed"]);
    let cancel = Action::Cancel { client: Some(waiting.submitter.clone()), reason: "no".to_owned() };
    assert_eq!(names(&decided(&waiting, 2_000, cancel).unwrap()), ["failed"]);
    let execute = Action::Execute { requested_at_ms: None, key: None };
    let refused = decided(&waiting, 2_000, execute).unwrap_err().to_string();
    assert!(refused.contains("the policy does not admit it before 1970-01-01T00:00:05.000Z"), "{refused}");
}

#[test]
fn approval_that_lapses_ends_the_wait() {
    let waiting = approved(not_before(5_000));
    let lapsed = vec![crate::approval::LapsedApproval {
        subject_id: "alice".to_owned(),
        reason: "key_revoked".to_owned(),
    }];
    let lapse = |policy| decided(&waiting, 2_000, Action::LapseApprovals { lapsed: lapsed.clone(), policy });
    let events = lapse(verdict(&[], 1)).unwrap();
    assert_eq!(names(&events), ["approvals_lapsed"]);
    let pending = after(&waiting, &events);
    assert_eq!((&pending.phase, pending.postponed_ms), (&Phase::PendingApproval, 1_000));
    let mut enough = verdict(&[], 0);
    enough.obligations = not_before(7_000).obligations;
    assert_eq!(
        names(&lapse(enough).unwrap()),
        ["approvals_lapsed", "quorum_reached", "admission_postponed"],
        "those that are left are enough, and the policy postpones it again"
    );
}

#[test]
fn approval_deadline_stops_while_an_operation_waits() {
    let expire = |operation: &Operation, at| {
        decided(operation, at, Action::Expire { approval_ttl_ms: 2_000 }).unwrap().len()
    };
    let waiting = approved(not_before(5_000));
    assert_eq!(waiting.approvals_expire_at(2_000), Some(EpochMs(7_000)));
    assert_eq!(expire(&waiting, 1_000_000), 0, "it does not fail while it waits");
    let resumed = after(&waiting, &decided(&waiting, 6_000, Action::ResumeAdmission).unwrap());
    assert_eq!(
        resumed.approvals_expire_at(2_000),
        Some(EpochMs(8_000)),
        "2,000 without the 5,000 of the wait"
    );
    assert_eq!((expire(&resumed, 7_999), expire(&resumed, 8_000)), (0, 1));
}

/// A history that a gateway cannot have written.
#[test]
fn postponement_without_the_policy_s_obligation_is_a_contradiction() {
    let event = |at, change| Event { at_ms: EpochMs(at), change, requested_by: None, settles: None };
    let postponed = |until, policy| Change::AdmissionPostponed { until_ms: EpochMs(until), policy };
    let contradicts = |operation: &Operation, at, change| {
        assert!(may_follow(operation, &change), "{change:?}");
        contradicts_content(operation, &event(at, change)).is_some()
    };
    let deciding = approved(verdict(&["alice".to_owned()], 1));
    assert!(!contradicts(&deciding, 2_000, postponed(5_000, Some(not_before(5_000)))));
    for (at, change) in [
        (2_000, postponed(5_000, Some(verdict(&["alice".to_owned()], 1)))),
        (2_000, postponed(5_001, Some(not_before(5_000)))),
        (5_000, postponed(5_000, Some(not_before(5_000)))),
        (2_000, postponed(5_000, Some(Outcome { decision: Decision::Deny, ..not_before(5_000) }))),
        (2_000, postponed(5_000, None)),
    ] {
        assert!(contradicts(&deciding, at, change.clone()), "{change:?}");
    }
    let waiting = approved(not_before(5_000));
    assert!(!contradicts(&waiting, 5_000, Change::AdmissionResumed));
    assert!(contradicts(&waiting, 4_999, Change::AdmissionResumed));
    assert!(!may_follow(&deciding, &Change::AdmissionResumed));
    let signed = |policy| Change::DecisionSigned { policy, admission: Box::new(admission(&deciding)) };
    assert!(!may_follow(&waiting, &signed(not_before(0))));
    // The last approval postponed it, and the event that says so is left out.
    let skipped = Operation { phase: Phase::Deciding, ..waiting.clone() };
    assert!(!contradicts(&skipped, 1_000, postponed(5_000, None)));
    assert!(contradicts(&skipped, 4_999, Change::LateApprovalRecorded { approval: approval("bob", NOW) }));
}

#[test]
fn decision_before_its_time_or_over_an_approval_that_is_too_old_is_a_contradiction() {
    let deciding = approved(verdict(&["alice".to_owned()], 1));
    let contradiction = |at, policy: Outcome| {
        let Step::Perform(owed) = next(&deciding) else { panic!() };
        let admission = Box::new(admission(&deciding));
        let outcome = crate::operation::Outcome::DecisionSigned { policy, admission };
        let events = decided(&deciding, at, Action::Settle { effect: owed.id, outcome }).unwrap();
        contradicts_content(&deciding, &events[0])
    };
    assert_eq!(contradiction(5_000, not_before(5_000)), None);
    assert!(contradiction(4_999, not_before(5_000)).unwrap().contains("before a later time"));
    let expiring = || allowing(APPROVALS_EXPIRE_MS, "ms", 60_000);
    let last = NOW.0 + 60_000 + CLOCK_SKEW_MS;
    assert_eq!(contradiction(last, expiring()), None);
    assert!(contradiction(last + 1, expiring()).unwrap().contains("older than the policy lets it count"));
}
