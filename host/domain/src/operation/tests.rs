//! Crash simulation: thousands of random operations, each interrupted at random, with the invariants checked after every
//! event. A failing run prints its seed; [`simulation::simulate`] replays it.

mod environment;
mod invariants;
mod machine;
mod postpone;
mod simulation;

use crate::testing::samples::{Kind, verdict};
use simulation::simulate;

/// 7 kinds x 7,000 seeds.
const SEEDS: std::ops::Range<u64> = 0..7_000;

fn check_all_seeds(kind: Kind) {
    let mut totals = simulation::Totals::default();
    for seed in SEEDS {
        totals.add(&simulate(kind, seed));
    }
    println!("{kind:?}: {totals:?}");
    assert!(totals.n_crashes > 2 * SEEDS.end, "too few crashes: {totals:?}");
    assert!(totals.n_lost > SEEDS.end / 10, "too few crashes lose events: {totals:?}");
    assert!(totals.n_published > SEEDS.end / 4, "too few published operations: {totals:?}");
    assert!(totals.n_failed > 0, "some operations fail: {totals:?}");
    let n_ended =
        [totals.n_rejected, totals.n_cancelled, totals.n_outvoted, totals.n_lapsed, totals.n_postponed];
    assert!(
        n_ended.iter().all(|n| *n > 10),
        "too few are rejected, cancelled, outvoted or postponed: {totals:?}"
    );
    let signs = matches!(kind, Kind::Payment | Kind::AssetAction);
    assert_eq!(totals.n_aborted > 0, !signs, "changes of keys are aborted: {totals:?}");
    // A change of a key does only if its one lost receiver is the last that has not staged its share.
    let n_undecided = if signs { 1..=SEEDS.end } else { 0..=SEEDS.end / 1000 };
    assert!(n_undecided.contains(&totals.n_undecided), "{totals:?}");
}

#[test]
fn payments_survive_crashes() {
    check_all_seeds(Kind::Payment);
}

#[test]
fn asset_actions_survive_crashes() {
    check_all_seeds(Kind::AssetAction);
}

#[test]
fn key_creations_survive_crashes() {
    check_all_seeds(Kind::KeyCreate);
}

#[test]
fn refreshes_survive_crashes() {
    check_all_seeds(Kind::Refresh);
}

#[test]
fn reshares_survive_crashes() {
    check_all_seeds(Kind::Reshare);
}

#[test]
fn rotations_survive_crashes() {
    check_all_seeds(Kind::Rotate);
}

#[test]
fn recoveries_survive_crashes() {
    check_all_seeds(Kind::Recover);
}

#[test]
fn result_without_the_receipts_of_all_participants_is_ignored() {
    use super::{Action, Command, Outcome, Phase, Step, decide, next};
    for kind in [Kind::Payment, Kind::Refresh] {
        let mut machine = simulation::executing(kind);
        let Step::Perform(effect) = next(&machine.operation) else { panic!() };
        let answer = machine.environment.perform(&mut machine.random, &machine.operation, &effect).unwrap();
        let settle = |change: fn(&mut Vec<crate::receipt::NodeReceipt>)| {
            let mut outcome = answer.clone();
            match &mut outcome {
                Outcome::Signed { receipts, .. } | Outcome::Staged { receipts, .. } => change(receipts),
                other => panic!("{other:?}"),
            }
            let action = Action::Settle { effect: effect.id, outcome };
            decide(&machine.operation, &Command { at: machine.now, action }).unwrap()
        };
        assert_eq!(settle(|receipts| receipts.truncate(1)), []);
        assert_eq!(settle(Vec::clear), []);
        assert_eq!(settle(|receipts| receipts[0].participant.0 = 63), []);
        assert!(!settle(|_| {}).is_empty());
        assert!(matches!(machine.operation.phase, Phase::Executing { .. }));
    }
}

#[test]
fn promotion_is_recorded_once_for_each_node() {
    use super::{Action, Change, Command, Outcome, Step, decide, evolve, next};
    let mut machine = simulation::executing(Kind::Refresh);
    assert!(machine.drive_once());
    let Step::Perform(effect) = next(&machine.operation) else { panic!() };
    let acked = machine.environment.perform(&mut machine.random, &machine.operation, &effect).unwrap();
    let Outcome::Acked(all) = acked else { panic!("{acked:?}") };
    let acknowledge = |operation: &super::Operation, receipts: &[crate::receipt::NodeReceipt]| {
        let Step::Perform(effect) = next(operation) else { panic!() };
        let outcome = Outcome::Acked(receipts.to_vec());
        let action = Action::Settle { effect: effect.id, outcome };
        decide(operation, &Command { at: machine.now, action }).unwrap()
    };
    let first = acknowledge(&machine.operation, &all[..1]);
    let waiting = evolve(machine.operation.clone(), &first[0]);
    assert_eq!(acknowledge(&waiting, &all[..1]), []);
    let rest = acknowledge(&waiting, &all);
    assert_eq!(rest[0].change, Change::EpochAcked { receipts: all[1..].to_vec() });
    let promoted = evolve(waiting, &rest[0]);
    assert_eq!(promoted.promoted_receipts, all, "nodes erase old shares only with the receipts of all");
    assert_eq!(promoted.staged_receipts.len(), 3);
}

#[test]
fn receipts_name_the_attempt_that_succeeded() {
    use super::{Action, Command, Outcome, Step, decide, next};
    use crate::operation::signed_receipts;
    use crate::receipt::ReceiptKind;
    let mut machine = simulation::executing(Kind::Payment);
    let settle = |operation: &super::Operation, outcome: Outcome| {
        let Step::Perform(effect) = next(operation) else { panic!() };
        let action = Action::Settle { effect: effect.id, outcome };
        decide(operation, &Command { at: crate::time::EpochMs(1), action }).unwrap()
    };
    let by = [crate::roster::ParticipantIndex(1)].into();
    let lost = settle(&machine.operation, environment::lost(&machine.operation, 1, by));
    invariants::check_event_receipts(&machine.operation, &lost[0]);
    machine.operation = super::evolve(machine.operation, &lost[0]);
    let Step::Perform(effect) = next(&machine.operation) else { panic!() };
    let signed = machine.environment.perform(&mut machine.random, &machine.operation, &effect).unwrap();
    let executed = settle(&machine.operation, signed);
    let (kind, _) = signed_receipts(&machine.operation, &executed[0])[0];
    assert!(matches!(kind, ReceiptKind::Signed { attempt: 2, .. }), "{kind:?}");
    invariants::check_event_receipts(&machine.operation, &executed[0]);
}

#[test]
fn only_a_key_creation_can_waive_its_approvals() {
    use super::{Action, Change, Command, decide, may_follow, open, replay};
    use crate::intent::PublicationMode;
    use crate::testing::samples::{intent, submission, verdict};
    use crate::time::EpochMs;
    for kind in [Kind::KeyCreate, Kind::Payment, Kind::Refresh] {
        let opened = open(submission(intent(kind, PublicationMode::Manual), 2), EpochMs(1));
        let operation = replay(&opened).unwrap();
        let action = |required| Command {
            at: EpochMs(2),
            action: Action::WaiveApprovals { policy: verdict(&[], required) },
        };
        let is_creation = kind == Kind::KeyCreate;
        assert_eq!(decide(&operation, &action(0)).unwrap().len(), if is_creation { 2 } else { 0 });
        assert_eq!(decide(&operation, &action(2)).unwrap(), [], "the policy denies");
        let wants_one = verdict(&["alice".to_owned()], 1);
        let action = Command { at: EpochMs(2), action: Action::WaiveApprovals { policy: wants_one } };
        assert_eq!(
            decide(&operation, &action).unwrap(),
            [],
            "the policy is satisfied, but requires an approval"
        );
        let waived = Change::ApprovalsWaived { policy: verdict(&[], 0) };
        assert_eq!(may_follow(&operation, &waived), is_creation);
    }
}

#[test]
fn event_times_do_not_go_back_when_the_clock_does() {
    use super::{Action, Command, Step, decide, next};
    use crate::ids::Hex32;
    use crate::time::EpochMs;
    let mut machine = simulation::executing(Kind::Payment);
    let then = machine.operation.updated_at_ms;
    let Step::Perform(effect) = next(&machine.operation) else { panic!() };
    let outcome = machine.environment.perform(&mut machine.random, &machine.operation, &effect).unwrap();
    for action in [
        Action::Settle { effect: effect.id, outcome },
        Action::NoteReplay { body_digest: Hex32::new([99; 32]) },
    ] {
        let events = decide(&machine.operation, &Command { at: EpochMs(then.0 - 1), action }).unwrap();
        assert!(!events.is_empty() && events.iter().all(|event| event.at_ms == then), "{events:?}");
    }
}

#[test]
fn signing_operation_is_executing_until_enough_nodes_discarded_it() {
    use super::{Action, Command, NextAction, Outcome, Phase, Refusal, State, Step, decide, next};
    let mut machine = simulation::executing(Kind::Payment);
    let failure = super::Failure { code: "refused".into(), detail: String::new(), culprits: vec![] };
    let settle = |machine: &mut machine::Machine, outcome: Outcome| {
        let Step::Perform(effect) = next(&machine.operation) else { panic!() };
        machine.decide(Action::Settle { effect: effect.id, outcome }).unwrap()
    };
    assert_eq!(settle(&mut machine, Outcome::Rejected { failure, policy: None }), 1);
    let operation = machine.operation.clone();
    assert_eq!((&operation.phase, operation.state()), (&Phase::Discarding, State::Executing));
    assert_eq!(operation.next_actions(), [NextAction::Execute]);
    let decided = |action| decide(&operation, &Command { at: machine.now, action });
    assert_eq!(decided(Action::Execute { requested_at_ms: None, key: None }), Ok(Vec::new()));
    let publish =
        Action::Publish { scope: "signature".into(), expected_result_ref: None, requested_at_ms: 0 };
    assert!(matches!(decided(publish), Err(Refusal::NotExecuted { .. })));
    let Step::Perform(effect) = next(&machine.operation) else { panic!() };
    let all = machine.environment.perform(&mut machine.random, &machine.operation, &effect).unwrap();
    let Outcome::Acked(all) = all else { panic!("{all:?}") };
    assert_eq!(settle(&mut machine, Outcome::Acked(all[..1].to_vec())), 0, "two of three can still sign");
    assert_eq!(settle(&mut machine, Outcome::Acked(all[1..].to_vec())), 1);
    assert_eq!((&machine.operation.phase, machine.operation.state()), (&Phase::Failed, State::Failed));
    assert!(matches!(
        decide(
            &machine.operation,
            &Command { at: machine.now, action: Action::Execute { requested_at_ms: None, key: None } }
        ),
        Err(Refusal::Failed(_))
    ));
}

/// The operation after the outcome of the effect that it owes.
fn settled(machine: &mut machine::Machine, outcome: super::Outcome) -> usize {
    use super::{Action, Step, next};
    let Step::Perform(effect) = next(&machine.operation) else { panic!() };
    machine.decide(Action::Settle { effect: effect.id, outcome }).unwrap()
}

/// An abort by Dora, whom the policy counts.
fn abort(lost: &[u16]) -> super::Action {
    abort_by("dora", lost, |_| ())
}

fn abort_by(subject: &str, lost: &[u16], alter: impl FnOnce(&mut crate::policy::Outcome)) -> super::Action {
    let approval = crate::testing::approvers::approval(subject, 1);
    let rejection = crate::approval::Rejection {
        subject_id: approval.subject_id,
        roles: approval.roles,
        registered: None,
        reason: "a node is lost".into(),
        lost: Some(lost.iter().copied().map(crate::roster::ParticipantIndex).collect()),
        claimed_at_ms: approval.claimed_at_ms,
        rejected_at_ms: approval.approved_at_ms,
        signature: None,
    };
    let mut policy = verdict(&[subject.to_owned()], 2);
    alter(&mut policy);
    super::Action::Reject { rejection, policy: Some(policy) }
}

#[test]
fn second_subject_of_a_person_neither_approves_nor_rejects_again() {
    use super::{Action, Command, Refusal, approval_is_open, decide};
    use crate::people::Registered;
    let machine = simulation::executing(Kind::Refresh);
    let mut waiting = super::replay(&machine.log[..2]).unwrap();
    let alice = Registered { person: Some("alice".into()), ..Registered::default() };
    let approval = |subject: &str, registered: Option<&Registered>| crate::approval::Approval {
        registered: registered.cloned().map(Box::new),
        ..crate::testing::approvers::approval(subject, 1)
    };
    waiting.approvals.clear();
    waiting.phase = super::Phase::PendingApproval;
    let approve = |operation: &super::Operation, approval: crate::approval::Approval| {
        let policy = verdict(std::slice::from_ref(&approval.subject_id), 2);
        let action = Action::Approve { approval, policy: Some(policy) };
        decide(operation, &Command { at: operation.updated_at_ms, action })
    };
    assert_eq!(approve(&waiting, approval("phone", Some(&alice))).unwrap().len(), 1);
    waiting.approvals.push(approval("phone", Some(&alice)));
    assert!(!approval_is_open(&waiting, "alice") && approval_is_open(&waiting, "phone"));
    assert_eq!(approve(&waiting, approval("Alice", None)).unwrap(), [], "she has approved as `phone`");
    let events = |operation: &super::Operation, action| {
        decide(operation, &Command { at: operation.updated_at_ms, action }).map(|events| events.len())
    };
    let Action::Reject { mut rejection, policy } = abort_by("desk", &[], |_| ()) else { panic!() };
    rejection.lost = None;
    rejection.registered = Some(Box::new(alice.clone()));
    let unasked = Action::Reject { rejection: rejection.clone(), policy: None };
    assert_eq!(events(&waiting, unasked), Ok(2), "she may reject what she approved");
    waiting.rejections.push(rejection.clone());
    assert_eq!(events(&waiting, Action::Reject { rejection, policy }), Ok(0), "a repeat");
    let refused = approve(&waiting, approval("alice", None));
    assert!(matches!(refused, Err(Refusal::ApproverNotPermitted { .. })), "{refused:?}");
}

#[test]
fn only_those_abort_whose_approval_would_count_or_does() {
    use super::Refusal;
    let mut machine = simulation::executing(Kind::Refresh);
    let of_others = abort_by("mallory", &[], |policy| policy.quorum.subjects = vec!["dora".into()]);
    let refused = machine.decide(of_others);
    assert!(matches!(refused, Err(Refusal::ApproverNotPermitted { .. })), "{refused:?}");
    let unasked = match abort_by("dora", &[], |_| ()) {
        super::Action::Reject { rejection, .. } => super::Action::Reject { rejection, policy: None },
        other => panic!("{other:?}"),
    };
    assert!(machine.decide(unasked).is_err(), "the policy was not asked");
    let mut approved = machine.operation.clone();
    approved.approvals.push(crate::testing::approvers::approval("alice", 1));
    let by_approver = abort_by("ALICE", &[], |policy| policy.quorum.subjects.clear());
    let command = super::Command { at: approved.updated_at_ms, action: by_approver };
    let events = super::decide(&approved, &command).unwrap();
    assert_eq!(events.len(), 2, "it has approved");
    let aborted = events.iter().fold(approved, super::evolve);
    assert_eq!(aborted.failure.unwrap().detail, "aborted by `ALICE`: a node is lost");
}

#[test]
fn policy_says_how_many_aborts_end_a_change() {
    use super::Phase;
    use crate::policy::{REJECTIONS_REQUIRED, Statement};
    let two = |policy: &mut crate::policy::Outcome| {
        policy.obligations.push(Statement::with_operand(REJECTIONS_REQUIRED, "rejections", "2"));
    };
    let mut machine = simulation::executing(Kind::Refresh);
    let phase = machine.operation.phase.clone();
    assert_eq!(machine.decide(abort_by("dora", &[], two)), Ok(1));
    assert_eq!(machine.decide(abort_by("DORA", &[], two)), Ok(0), "a repeat does not count twice");
    assert_eq!((&machine.operation.phase, &machine.operation.failure), (&phase, &None));
    assert!(machine.operation.may_abort(), "another may follow");
    assert_eq!(machine.decide(abort_by("erin", &[], two)), Ok(2));
    assert_eq!(machine.operation.phase, Phase::Discarding);
    assert_eq!(machine.decide(abort_by("dora", &[], two)), Ok(0), "a repeat");
    assert_eq!(machine.decide(abort_by("frank", &[], two)), Ok(0), "it is being discarded");
}

#[test]
fn aborted_change_has_failed_and_its_key_is_free_with_the_receipt_of_one_receiver() {
    use super::{NextAction, Outcome, Phase, State};
    use crate::key::{KeyState, transitions};
    use crate::receipt::ReceiptKind;
    use crate::receipt::tests::receipts;
    let mut machine = simulation::executing(Kind::Refresh);
    let keys = |machine: &machine::Machine| {
        let before =
            transitions::Keys { subject: Some(crate::testing::samples::key()), ..Default::default() };
        let after = |keys, n| {
            let operation = super::replay(&machine.log[..n]).unwrap();
            transitions::after(keys, &operation, &machine.log[n - 1])
        };
        let subject = (1..=machine.log.len()).fold(before, after).subject.unwrap();
        (subject.state, subject.busy_with.is_some())
    };
    assert!(machine.decide(abort(&[2])).is_err(), "no receiver can be lost before the result is certain");
    assert_eq!(machine.decide(abort(&[])), Ok(2));
    assert_eq!((&machine.operation.phase, machine.operation.state()), (&Phase::Discarding, State::Executing));
    assert_eq!(machine.operation.next_actions(), [NextAction::Execute]);
    assert_eq!(keys(&machine), (KeyState::Refreshing, true), "nodes may have completed the ceremony");
    assert_eq!(machine.decide(abort(&[])), Ok(0));
    let discarded = |machine: &machine::Machine, by: u16| {
        let by = [crate::roster::ParticipantIndex(by)];
        Outcome::Acked(receipts(&machine.operation, ReceiptKind::Discarded, by.into_iter()))
    };
    let first = discarded(&machine, 1);
    assert_eq!(settled(&mut machine, first), 1);
    assert_eq!(machine.operation.state(), State::Failed);
    assert_eq!(keys(&machine), (KeyState::Active, false));
    let second = discarded(&machine, 0);
    assert_eq!(settled(&mut machine, second), 1);
    assert!(machine.decide(abort(&[1])).is_err(), "node 1 has discarded it");
    assert_eq!(machine.decide(abort(&[2])), Ok(3));
    assert_eq!(machine.decide(abort(&[2])), Ok(0), "a repeat");
    assert_eq!(machine.operation.phase, Phase::Failed);
}

#[test]
fn aborted_change_that_all_receivers_had_staged_completes() {
    use super::{Phase, Step, next};
    let mut machine = simulation::executing(Kind::Refresh);
    let Step::Perform(effect) = next(&machine.operation) else { panic!() };
    let staged = machine.environment.perform(&mut machine.random, &machine.operation, &effect).unwrap();
    assert_eq!(machine.decide(abort(&[])), Ok(2));
    assert_eq!(settled(&mut machine, staged), 1);
    assert!(matches!(machine.operation.phase, Phase::CommittingEpoch { .. }));
    assert_eq!(machine.operation.failure, None);
}

#[test]
fn change_does_without_lost_receivers_only_if_enough_are_left_to_sign() {
    use super::Phase;
    let mut machine = simulation::executing(Kind::Refresh);
    assert!(machine.drive_once());
    assert!(matches!(machine.operation.phase, Phase::CommittingEpoch { .. }));
    assert!(machine.decide(abort(&[])).is_err(), "the new shares are certain");
    assert!(machine.decide(abort(&[1, 2])).is_err(), "one node cannot sign alone");
    assert!(machine.decide(abort(&[7])).is_err(), "no receiver");
    assert_eq!(machine.decide(abort(&[2])), Ok(2));
    assert!(machine.decide(abort(&[1])).is_err(), "one node cannot sign alone");
    assert!(machine.drive_once());
    assert_eq!(machine.operation.phase, Phase::Executed);
    assert_eq!(machine.operation.promoted_receipts.len(), 2);
}
