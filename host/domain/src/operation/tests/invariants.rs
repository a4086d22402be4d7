//! Invariants that hold after every event of every simulated operation.

use super::machine::Machine;
use super::simulation::SIGNER;
use crate::approval::Approvers;
use crate::intent::{Intent, OperationType};
use crate::operation::signed_receipts;
use crate::operation::{
    Change, Event, ExportState, NextAction, Operation, Phase, State, contradicts_content, contradicts_ends,
    evaluations, may_follow, replay,
};
use crate::receipt::NodeReceipt;
use crate::receipt::tests::check_receipt;
use crate::testing::approvers::{entry, key, key_entry, registry};
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub(crate) fn check(machine: &Machine) {
    check_published(machine);
    check_failed(machine);
    check_failed_signature(machine);
    check_executed_once(machine);
    assert!(machine.environment.n_signatures <= 1, "two signatures of one operation");
    check_confirmations(machine);
    check_rejected(machine);
    check_postponed(machine);
}

/// Each wait ends at its time, or before it without a decision; the waits that have ended are added up.
fn check_postponed(machine: &Machine) {
    let (mut since, mut waited_ms) = (None, 0);
    for Event { at_ms, change, .. } in &machine.log {
        match (change, since) {
            (Change::AdmissionPostponed { until_ms, .. }, None) => since = Some((at_ms, until_ms)),
            (Change::AdmissionResumed, Some((from, until))) => {
                assert!(at_ms >= until, "resumed too early: {:?}", machine.log);
                waited_ms += at_ms.0 - from.0;
                since = None;
            }
            (Change::ApprovalsLapsed { .. } | Change::Failed { .. }, Some((from, _))) => {
                waited_ms += at_ms.0 - from.0;
                since = None;
            }
            (Change::AdmissionPostponed { .. } | Change::DecisionSigned { .. }, Some(_)) => {
                panic!("decided while it waits: {:?}", machine.log)
            }
            (Change::AdmissionResumed, None) => panic!("resumed without a wait: {:?}", machine.log),
            _ => {}
        }
    }
    assert_eq!(machine.operation.postponed_ms, waited_ms);
    assert_eq!(machine.operation.admit_not_before(), since.map(|(_, until)| *until));
}

/// What was rejected or cancelled was never admitted, and each subject rejects once, and aborts once without the same nodes.
fn check_rejected(machine: &Machine) {
    let operation = &machine.operation;
    let rejections = operation.rejections.iter();
    let subjects: BTreeSet<_> =
        rejections.map(|rejection| (&rejection.subject_id, &rejection.lost)).collect();
    assert_eq!(subjects.len(), operation.rejections.len());
    let code = operation.failure.as_ref().map(|failure| failure.code.as_str());
    if matches!(code, Some("rejected" | "cancelled")) {
        assert!(operation.phase == Phase::Failed && operation.admission.is_none(), "{operation:?}");
    }
    if code == Some("rejected") {
        assert!(matches!(before_failure(machine), Some(Change::RejectionRecorded { .. })));
    }
}

/// The change before the first failure.
fn before_failure(machine: &Machine) -> Option<&Change> {
    let failed = machine.log.iter().position(|event| is_failed(&&event.change))?;
    machine.log.get(failed.checked_sub(1)?).map(|event| &event.change)
}

/// The number of changes in the log for which `is` is true.
fn n_changes(machine: &Machine, is: impl Fn(&Change) -> bool) -> usize {
    machine.log.iter().filter(|event| is(&event.change)).count()
}

pub(crate) fn check_quorum_before_effect(machine: &Machine) {
    let quorum = &machine.operation.policy.quorum;
    let subjects: BTreeSet<_> =
        machine.operation.approvals.iter().map(|approval| &approval.subject_id).collect();
    // Once, and once more each time approvals lapsed after it.
    let changes = machine.log.iter().map(|event| &event.change);
    let mut of_quorum =
        changes.filter(|change| matches!(change, Change::QuorumReached | Change::ApprovalsLapsed { .. }));
    let reached: Vec<_> = of_quorum.by_ref().map(|change| matches!(change, Change::QuorumReached)).collect();
    assert!(
        reached.last() == Some(&true)
            && !reached.windows(2).any(|two| two == [true, true])
            && subjects.len() >= quorum.required as usize
            && subjects.len() == machine.operation.approvals.len(),
        "an effect without a quorum: {:?}",
        machine.operation
    );
}

pub(crate) fn check_effect_ids(machine: &Machine) {
    assert_eq!(machine.environment.reused_id, None, "an effect id named two actions");
}

fn check_published(machine: &Machine) {
    if machine.operation.phase != Phase::Published {
        return;
    }
    let target = machine.operation.admission.as_ref().and_then(|admission| admission.decision.target.clone());
    let mut receivers =
        target.as_ref().map(|target| target.participants.as_set().clone()).unwrap_or_default();
    let given_up = &machine.operation.given_up;
    receivers.retain(|node| !given_up.contains(node));
    assert!(
        receivers.is_subset(&machine.environment.committed),
        "published without every node that gets a share"
    );
    assert!(
        target.is_none_or(|target| receivers.len() >= target.threshold.count()),
        "too few shares are left"
    );
    assert!(machine.environment.staged.is_subset(given_up), "published with something staged");
    assert!(machine.operation.result_ref.is_some() && machine.operation.publication_receipt.is_some());
}

fn check_failed(machine: &Machine) {
    if machine.operation.phase != Phase::Failed {
        return;
    }
    assert_eq!(n_changes(machine, |change| matches!(change, Change::EpochDecided { .. })), 0);
    let given_up = &machine.operation.given_up;
    assert!(machine.environment.staged.is_subset(given_up), "failed with something staged");
    assert!(machine.environment.committed.is_empty(), "failed with something committed");
    assert!(machine.operation.failure.is_some());
}

/// A signing operation with a decision fails only with the discard receipts of n - t + 1 nodes, and no signature exists.
fn check_failed_signature(machine: &Machine) {
    let Some(decision) = machine.operation.admission.as_ref().map(|admission| &admission.decision) else {
        return;
    };
    if machine.operation.phase != Phase::Failed || decision.operation_type != OperationType::Sign {
        return;
    }
    let Some(Change::Failed { receipts, .. }) =
        machine.log.iter().map(|event| &event.change).rfind(is_failed)
    else {
        panic!("failed without a `failed` event")
    };
    let refusing: BTreeSet<_> = receipts.iter().map(|receipt| receipt.participant).collect();
    let n_needed = decision.participants.n_participants() - decision.threshold.count() + 1;
    assert!(refusing.len() >= n_needed, "failed while enough nodes may sign: {refusing:?}");
    assert!(
        refusing.is_subset(&machine.environment.discarded),
        "a receipt of a node that did not discard: {refusing:?}"
    );
    assert_eq!(machine.environment.n_signatures, 0, "failed, and there is a signature");
}

const fn is_failed(change: &&Change) -> bool {
    matches!(change, Change::Failed { .. })
}

fn check_executed_once(machine: &Machine) {
    assert!(n_changes(machine, |change| matches!(change, Change::Executed { .. })) <= 1);
    assert!(n_changes(machine, |change| matches!(change, Change::EpochDecided { .. })) <= 1);
    assert!(n_changes(machine, |change| matches!(change, Change::DecisionSigned { .. })) <= 1);
}

/// The nodes that the plan requires have confirmed the step of the last event.
fn check_confirmations(machine: &Machine) {
    let (Some(last), Some(plan)) = (machine.log.last(), machine.operation.plan()) else { return };
    let nodes = |receipts: &[NodeReceipt]| -> BTreeSet<_> {
        receipts.iter().map(|receipt| receipt.participant).collect()
    };
    if let Change::Published { receipts, .. } = &last.change {
        assert!(plan.is_published(&nodes(receipts)), "a receiver has not confirmed: {last:?}");
    }
    if let Change::AdmissionApplied { receipts } | Change::ReceiptMaterialized { receipts, .. } = &last.change
    {
        let nodes = nodes(receipts);
        assert!(nodes.is_superset(&plan.receivers), "a receiver has not confirmed: {last:?}");
        let n_holders = nodes.intersection(&plan.holders).count();
        assert!(n_holders >= plan.n_holders_required, "too few holders confirmed: {last:?}");
    }
}

/// What a reader checks of a history permits every event that `decide` makes.
pub(crate) fn check_order(before: &Operation, previous: Option<&Event>, event: &Event) {
    assert!(may_follow(before, &event.change), "{:?} in {:?}", event.change, before.phase);
    let contradiction = contradicts_ends(before, previous.map(|event| &event.change), event);
    assert_eq!(contradiction, None, "{event:?}");
    assert_eq!(contradicts_content(before, event), None, "{event:?}");
}

/// The receipts of an event verify with the events and the nodes' keys alone, and there are enough.
pub(crate) fn check_event_receipts(before: &Operation, event: &Event) {
    let receipts = signed_receipts(before, event);
    if receipts.is_empty() {
        return assert!(!needs_receipts(before, &event.change), "no receipts: {event:?}");
    }
    for (kind, receipt) in &receipts {
        check_receipt(before, kind, receipt);
    }
    let plan = before.plan().unwrap();
    let nodes: BTreeSet<_> = receipts.iter().map(|(_, receipt)| receipt.participant).collect();
    assert_eq!(nodes.len(), receipts.len(), "a receipt twice: {event:?}");
    match &event.change {
        Change::Executed { signature, .. } => {
            assert_eq!(nodes, *signature.as_ref().unwrap().signers.as_set(), "{event:?}");
        }
        Change::EpochDecided { .. } => assert!(plan.is_received(&nodes), "{event:?}"),
        Change::DiscardAcked { .. } => assert!(nodes.is_subset(&plan.receivers), "{event:?}"),
        Change::Failed { .. } => match &before.phase {
            Phase::DiscardingRest { undiscarded, .. } => assert!(undiscarded.is_subset(&nodes), "{event:?}"),
            _ => assert!(plan.is_discarded(&nodes), "{event:?}"),
        },
        _ => {}
    }
}

/// Whether the change needs the receipts of nodes.
fn needs_receipts(before: &Operation, change: &Change) -> bool {
    match change {
        Change::AdmissionApplied { .. }
        | Change::ReceiptMaterialized { .. }
        | Change::EpochDecided { .. }
        | Change::EpochAcked { .. }
        | Change::DiscardAcked { .. }
        | Change::Published { .. } => true,
        Change::Executed { signature, .. } => signature.is_some(),
        Change::Failed { .. } => before.phase == Phase::Discarding,
        _ => false,
    }
}

/// At the end of the simulation the operation is final, unless its result may exist.
pub(crate) fn check_end(machine: &Machine) {
    assert_eq!(replay(&machine.log).as_ref(), Some(&machine.operation), "folding the log gives the state");
    if machine.operation.phase == Phase::Discarding {
        assert!(
            machine.environment.may_be_signed(&machine.operation)
                || machine.environment.waits_for_lost_receiver(&machine.operation),
            "no result can come to be, and it has not failed"
        );
        assert_eq!(
            machine.operation.state(),
            State::Executing,
            "a result may exist, and it is shown as failed"
        );
    } else {
        let phase = &machine.operation.phase;
        assert!(matches!(phase, Phase::Published | Phase::Failed), "stuck in {phase:?}");
    }
    let exports = matches!(machine.operation.intent, Intent::AssetAction(_))
        && machine.operation.phase == Phase::Published;
    let settled =
        machine.operation.export.as_ref().is_some_and(|export| export.state == ExportState::Settled);
    let expected: &[_] = match machine.operation.phase {
        Phase::Discarding => &[NextAction::Execute],
        _ if exports && !settled => &[NextAction::ExternalExport],
        _ => &[],
    };
    assert_eq!(machine.operation.next_actions(), expected);
    check_policy_inputs(machine);
    check_approval_signatures(machine);
    check_state_after(machine);
}

/// [`State::after`] gives the state from the types of the changes alone.
fn check_state_after(machine: &Machine) {
    let mut expected = None;
    for n_events in 1..=machine.log.len() {
        let event = serde_json::to_value(&machine.log[n_events - 1]).unwrap();
        expected = State::after(event["change"]["type"].as_str().unwrap()).or(expected);
        let operation = replay(&machine.log[..n_events]).unwrap();
        assert_eq!(Some(operation.state()), expected, "after {event}");
    }
}

/// The stored signatures of the one subject that signs its approvals still verify.
fn check_approval_signatures(machine: &Machine) {
    static APPROVERS: LazyLock<Approvers> = LazyLock::new(|| {
        let registry = registry(&[entry(SIGNER, &[key_entry(&key(1))])]);
        Approvers::parse(registry.as_bytes()).unwrap()
    });
    for approval in &machine.operation.approvals {
        assert_eq!(approval.signature.is_some(), approval.subject_id == SIGNER);
        if let Some(signature) = &approval.signature {
            let subject = machine.operation.approval_subject();
            let verified = APPROVERS.verify(&subject.statement(approval), signature, machine.now);
            assert_eq!(verified, Ok(()), "{approval:?}");
        }
    }
}

/// The input of each evaluation is reconstructed with the digest that was recorded.
fn check_policy_inputs(machine: &Machine) {
    let found = evaluations(&machine.log);
    for evaluation in &found {
        let digest = evaluation.input.request().digest().unwrap();
        assert_eq!(digest, evaluation.outcome.input_hash, "event {} of {:?}", evaluation.seq, machine.log);
    }
    let recorded: Vec<_> = (1..)
        .zip(&machine.log)
        .filter_map(|(seq, event)| Some((seq, event.change.evaluation()?.1)))
        .collect();
    assert_eq!(found.iter().map(|found| (found.seq, &found.outcome)).collect::<Vec<_>>(), recorded);
}
