//! One random operation, from submission to its end.

use super::invariants;
use super::machine::Machine;
use crate::approval::{LapsedApproval, Rejection};
use crate::intent::PublicationMode;
use crate::operation::{
    Action, Change, Event, ExportState, ExternalExport, Phase, Refusal, Step, approval_is_open, next,
};
use crate::policy::{Moment, REJECTIONS_REQUIRED, Statement};
use crate::roster::ParticipantIndex;
use crate::testing::approvers::{key as signing_key, signed};
use crate::testing::samples::{Kind, approval, evaluated, hex32, intent, key, submission, verdict};
use std::collections::BTreeSet;

/// The subject that signs its approvals.
pub(crate) const SIGNER: &str = "subject-0";

#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) n_crashes: u64,
    pub(crate) n_lost: u64,
    pub(crate) n_published: u64,
    pub(crate) n_failed: u64,
    /// Operations that stay in `Discarding`, because a result may exist.
    pub(crate) n_undecided: u64,
    /// Operations that were aborted or did without lost nodes.
    pub(crate) n_aborted: u64,
    pub(crate) n_rejected: u64,
    pub(crate) n_cancelled: u64,
    /// Operations that went on after a rejection.
    pub(crate) n_outvoted: u64,
    /// Operations that were admitted after an approval lapsed.
    pub(crate) n_lapsed: u64,
    /// Operations that were admitted after they had been postponed.
    pub(crate) n_postponed: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, machine: &Machine) {
        self.n_crashes += machine.n_crashes;
        self.n_lost += machine.n_lost;
        self.n_published += u64::from(machine.operation.phase == Phase::Published);
        self.n_failed += u64::from(machine.operation.phase == Phase::Failed);
        let is_abort = |event: &Event| match &event.change {
            Change::NodesGivenUp { .. } => true,
            Change::Aborted { failure } | Change::Failed { failure, .. } => failure.code == "aborted",
            _ => false,
        };
        self.n_aborted += u64::from(machine.log.iter().any(is_abort));
        let has_failed_as =
            |code| u64::from(machine.operation.failure.as_ref().is_some_and(|failure| failure.code == code));
        self.n_rejected += has_failed_as("rejected");
        self.n_cancelled += has_failed_as("cancelled");
        let is_outvoted = !machine.operation.rejections.is_empty() && machine.operation.admission.is_some();
        self.n_outvoted += u64::from(is_outvoted);
        let has_lapsed =
            !machine.operation.lapsed_approvals.is_empty() && machine.operation.admission.is_some();
        self.n_lapsed += u64::from(has_lapsed);
        let was_postponed = machine.operation.postponed_ms > 0 && machine.operation.admission.is_some();
        self.n_postponed += u64::from(was_postponed);
        self.n_undecided += u64::from(machine.operation.phase == Phase::Discarding);
    }
}

pub(crate) fn simulate(kind: Kind, seed: u64) -> Machine {
    let mode = if seed.is_multiple_of(2) { PublicationMode::Manual } else { PublicationMode::Automatic };
    let required = u32::try_from(seed % 4).unwrap();
    let mut machine = Machine::submit(seed, submission(intent(kind, mode), required));
    if seed.is_multiple_of(3) {
        machine.environment.down = dispensable(kind).iter().map(|node| ParticipantIndex(*node)).collect();
    }
    for turn in 0..60 {
        // A receiver is lost.
        if !matches!(kind, Kind::Payment | Kind::AssetAction) && seed % 5 == 4 && turn == seed % 50 {
            machine.environment.down.insert(ParticipantIndex(2));
        }
        if machine.random.one_in(3) {
            any_command(&mut machine);
        } else {
            machine.drive_once();
        }
    }
    machine.environment.is_reliable = true;
    finish(&mut machine);
    invariants::check_end(&machine);
    assert!(machine.environment.n_results() <= 1, "seed {seed}: two ceremonies produced a result");
    machine
}

/// An operation that owes its ceremony, with nodes that no longer fail.
pub(crate) fn executing(kind: Kind) -> Machine {
    let mut machine = Machine::submit(0, submission(intent(kind, PublicationMode::Manual), 0));
    machine.environment.is_reliable = true;
    while !matches!(machine.operation.phase, Phase::Executing { .. }) {
        if machine.operation.phase == Phase::Admitted {
            machine.decide(execute()).unwrap();
        } else {
            assert!(machine.drive_once(), "nothing moved");
        }
    }
    machine
}

/// Nodes that the operation can do without: signers above the threshold, and holders that leave.
const fn dispensable(kind: Kind) -> &'static [u16] {
    match kind {
        Kind::Payment | Kind::AssetAction | Kind::Reshare => &[0],
        Kind::Rotate => &[0, 1],
        Kind::KeyCreate | Kind::Refresh | Kind::Recover => &[],
    }
}

/// Any command at any time, repeats included. It may be refused.
fn any_command(machine: &mut Machine) {
    machine.end_work();
    let action = match machine.random.below(17) {
        16 if machine.random.one_in(2) => Action::ResumeAdmission,
        16 => Action::PostponeAdmission { policy: machine.postponement() },
        15 if machine.random.one_in(3) => lapse(machine),
        14 if machine.random.one_in(20) => {
            let (subject, n_required) = (any_subject(machine), 1 + machine.random.below(2));
            abort(machine, &subject, n_required)
        }
        0..=5 => approve(machine),
        6 | 7 => execute(),
        8 => publish(),
        9 => Action::BeginCeremony,
        10 if !machine.outcomes.is_empty() && machine.random.one_in(2) => stale_outcome(machine),
        10 => Action::Recover {
            effect_id: format!("unknown-{}", machine.random.below(3)),
            result_root: hex32(1),
        },
        11 => export(machine),
        12 if machine.random.one_in(4) => waive(machine),
        13 if machine.random.one_in(10) => cancel(machine),
        13 if machine.random.one_in(3) => reject(machine),
        _ => Action::NoteReplay { body_digest: hex32(2) },
    };
    let _ignored = machine.decide(action);
}

/// An outcome that was reported before, as after a crash between an effect and its record.
fn stale_outcome(machine: &mut Machine) -> Action {
    let n_outcomes = u64::try_from(machine.outcomes.len()).unwrap();
    let index = usize::try_from(machine.random.below(n_outcomes)).unwrap();
    machine.outcomes[index].clone()
}

fn any_subject(machine: &mut Machine) -> String {
    format!("subject-{}", machine.random.below(5))
}

fn approve(machine: &mut Machine) -> Action {
    let subject = any_subject(machine);
    let mut approval = approval(&subject, machine.now);
    // One subject in five signs, so that there are signed and unsigned approvals.
    if subject == SIGNER {
        approval = signed(approval, &machine.operation.approval_subject(), &signing_key(1));
    }
    let waits = !machine.environment.is_reliable && machine.random.one_in(8);
    let wait = waits.then(|| machine.wait());
    let policy = approval_is_open(&machine.operation, &subject).then(|| {
        let earlier = machine.operation.approvals.iter().map(|approval| approval.subject_id.clone());
        let subjects: Vec<_> = earlier.chain([subject.clone()]).collect();
        let approvals = [machine.operation.approvals.as_slice(), std::slice::from_ref(&approval)].concat();
        let request = machine.operation.request(Moment::Approval, &approvals);
        let mut verdict = verdict(&subjects, machine.operation.policy.quorum.required);
        verdict.obligations.extend(wait);
        evaluated(&request, verdict)
    });
    Action::Approve { approval, policy }
}

/// One of the approvals no longer counts.
fn lapse(machine: &mut Machine) -> Action {
    let subject_id = any_subject(machine);
    let lapsed = vec![LapsedApproval { subject_id, reason: "key_revoked".into() }];
    let left = machine.operation.approvals_without(&lapsed);
    let subjects: Vec<_> = left.iter().map(|approval| approval.subject_id.clone()).collect();
    let request = machine.operation.request(Moment::Approval, &left);
    let policy = evaluated(&request, verdict(&subjects, machine.operation.policy.quorum.required));
    Action::LapseApprovals { lapsed, policy }
}

/// A waiver, by a policy that requires no approvals or the operation's number of them.
fn waive(machine: &mut Machine) -> Action {
    let subjects: Vec<_> =
        machine.operation.approvals.iter().map(|approval| approval.subject_id.clone()).collect();
    let request = machine.operation.request(Moment::Approval, &machine.operation.approvals);
    let required = if machine.random.one_in(2) { 0 } else { machine.operation.policy.quorum.required };
    Action::WaiveApprovals { policy: evaluated(&request, verdict(&subjects, required)) }
}

/// A rejection, by a policy that requires one to three.
fn reject(machine: &mut Machine) -> Action {
    let (subject, n_required) = (any_subject(machine), 1 + machine.random.below(3));
    rejected(machine, &subject, None, n_required)
}

/// A rejection or an abort, by a policy that counts everyone and requires so many. One subject in five signs.
fn rejected(
    machine: &Machine,
    subject: &str,
    lost: Option<BTreeSet<ParticipantIndex>>,
    n_required: u64,
) -> Action {
    let mut approval = approval(subject, machine.now);
    if subject == SIGNER {
        approval = signed(approval, &machine.operation.approval_subject(), &signing_key(1));
    }
    let rejection = Rejection {
        subject_id: approval.subject_id,
        roles: approval.roles,
        registered: None,
        reason: "no".into(),
        lost,
        claimed_at_ms: approval.claimed_at_ms,
        rejected_at_ms: approval.approved_at_ms,
        signature: approval.signature,
    };
    let policy = machine.operation.needs_evaluation_of(&rejection.subject_id).then(|| {
        let approvals = [machine.operation.approvals.as_slice(), &[rejection.as_approval()]].concat();
        let subjects: Vec<_> = approvals.iter().map(|approval| approval.subject_id.clone()).collect();
        let mut verdict = verdict(&subjects, machine.operation.policy.quorum.required);
        let number = n_required.to_string();
        verdict.obligations.push(Statement::with_operand(REJECTIONS_REQUIRED, "rejections", number));
        evaluated(&machine.operation.request(Moment::Approval, &approvals), verdict)
    });
    Action::Reject { rejection, policy }
}

fn cancel(machine: &mut Machine) -> Action {
    let mut client = machine.operation.submitter.clone();
    if machine.random.one_in(4) {
        client.subject_id.push('x');
    }
    Action::Cancel { client: Some(client), reason: "twice".into() }
}

fn execute() -> Action {
    Action::Execute { requested_at_ms: None, key: Some(Box::new(key())) }
}

fn export(machine: &mut Machine) -> Action {
    let states = [ExportState::Submitted, ExportState::Accepted, ExportState::Settled];
    let state = states[usize::try_from(machine.random.below(3)).unwrap()];
    let publication_receipt = machine.operation.publication_receipt.clone().unwrap_or_default();
    let export = ExternalExport {
        rail: "r".into(),
        export_ref: hex32(1),
        state,
        external_id: "e".into(),
        exported_at_ms: 0,
    };
    Action::Export { publication_receipt, export }
}

fn publish() -> Action {
    Action::Publish { scope: "signature".into(), expected_result_ref: None, requested_at_ms: 0 }
}

/// Aborts the operation, or gives up the nodes that are down.
fn abort(machine: &Machine, subject: &str, n_required: u64) -> Action {
    let is_certain = matches!(
        machine.operation.phase,
        Phase::CommittingEpoch { .. } | Phase::Executed | Phase::Publishing | Phase::DiscardingRest { .. }
    );
    let down = machine.environment.down.iter().copied();
    let receivers = machine.operation.plan().map(|plan| plan.receivers).unwrap_or_default();
    let lost = down.filter(|node| is_certain && receivers.contains(node)).collect();
    rejected(machine, subject, Some(lost), n_required)
}

/// Drives the operation to its end. The nodes answer, but for those that are down.
fn finish(machine: &mut Machine) {
    for _ in 0..200 {
        match (next(&machine.operation), &machine.operation.phase) {
            (Step::Rest, Phase::PendingApproval) => {
                let action = approve(machine);
                match (&action, machine.decide(action.clone())) {
                    (Action::Approve { approval, .. }, Err(Refusal::ApproverNotPermitted { .. })) => {
                        assert!(machine.operation.is_rejected_by(&approval.subject_id));
                    }
                    (_, decided) => drop(decided.unwrap()),
                }
            }
            (Step::Rest, Phase::Postponed { until_ms, .. }) => {
                machine.now = machine.now.max(*until_ms);
                assert_eq!(machine.decide(Action::ResumeAdmission), Ok(1));
            }
            (Step::Rest, Phase::Admitted) => drop(machine.decide(execute()).unwrap()),
            (Step::Rest, Phase::Executed) => drop(machine.decide(publish()).unwrap()),
            (Step::Rest, _) => return,
            (Step::Perform(_), Phase::Discarding)
                if machine.environment.may_be_signed(&machine.operation)
                    || machine.environment.waits_for_lost_receiver(&machine.operation) =>
            {
                machine.drive_once();
                match machine.operation.phase {
                    Phase::Discarding => {
                        let n_results = machine.environment.n_results();
                        return assert_eq!(n_results, 0, "the result that the nodes have does not count");
                    }
                    // The nodes had the result, which was not recorded.
                    Phase::Executed | Phase::Publishing => {}
                    _ => panic!("failed although a result may exist: {:?}", machine.operation),
                }
            }
            (Step::Record(_) | Step::Perform(_), _) => {
                if !machine.drive_once() {
                    let subject = format!("operator-{}", machine.log.len());
                    let action = abort(machine, &subject, 1);
                    let n_events = machine.decide(action).unwrap();
                    assert!(n_events > 0, "nothing moved: {:?}", machine.operation);
                }
            }
        }
    }
}
