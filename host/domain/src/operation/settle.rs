//! The outcome of an effect: which events it causes, and when a ceremony is retried or given up.

use super::effect::{Effect, Failure, Outcome};
use super::event::{Change, SIGNATURE_SCOPE};
use super::next::{Step, next};
use super::phase::Phase;
use super::plan::Plan;
use super::state::Operation;
use crate::ids::Hex32;
use crate::intent::{OperationType, PublicationMode};
use crate::policy;
use crate::receipt::{AttemptReceipt, NodeReceipt, participants};
use crate::roster::ParticipantIndex;
use crate::step::{EffectId, EffectStep};
use std::collections::BTreeSet;

/// The most attempts at a ceremony that makes shares. While it runs no other operation can change the key, so it must
/// end. A signature is retried without limit.
pub const ATTEMPTS_MAX: u32 = 16;

/// The code of a change of a key that was attempted so often.
pub(super) const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";

/// The changes that the outcome of an effect causes; none when the operation does not owe this effect.
pub(super) fn decide(operation: &Operation, effect: EffectId, outcome: &Outcome) -> Vec<Change> {
    let (Step::Perform(owed), Ok(root)) = (next(operation), outcome.result_root()) else { return Vec::new() };
    if owed.id != effect {
        return Vec::new();
    }
    match outcome {
        Outcome::DecisionSigned { policy, admission } => match owed.id.step {
            EffectStep::Decision => {
                vec![Change::DecisionSigned { policy: policy.clone(), admission: admission.clone() }]
            }
            EffectStep::Admission
            | EffectStep::PolicyReceipt
            | EffectStep::Execute
            | EffectStep::CommitEpoch
            | EffectStep::Publish
            | EffectStep::Discard => Vec::new(),
        },
        Outcome::Acked(receipts) => acked_changes(operation, &owed, receipts, root),
        // The result counts only with a signed receipt from every signer, or from every holder of a new share.
        Outcome::Signed { signature, receipts }
            if ceremony_is_owed(operation, false)
                && *signature.signers.as_set() == participants(receipts) =>
        {
            let (signature, receipts) = (Some(signature.clone()), receipts.clone());
            executed_changes(operation, Change::Executed { result_ref: root, signature, receipts })
        }
        Outcome::Staged { staged, receipts }
            if ceremony_is_owed(operation, true)
                && *staged.participants.as_set() == participants(receipts) =>
        {
            vec![Change::EpochDecided { staged: staged.clone(), receipts: receipts.clone() }]
        }
        Outcome::Signed { .. } | Outcome::Staged { .. } => Vec::new(),
        Outcome::AttemptLost { reason, receipts } => attempt_lost_changes(operation, reason, receipts),
        Outcome::Rejected { failure, policy } => match &operation.phase {
            Phase::Deciding | Phase::Admitting | Phase::IssuingReceipt | Phase::Executing { .. } => {
                vec![give_up(operation, failure.clone(), policy.clone())]
            }
            // From these phases the operation only goes forward: the effect stays owed until it succeeds.
            Phase::CommittingEpoch { .. }
            | Phase::Publishing
            | Phase::Discarding
            | Phase::DiscardingRest { .. } => Vec::new(),
            // These phases owe nothing, so no outcome gets here.
            Phase::Submitted
            | Phase::PendingApproval
            | Phase::Postponed { .. }
            | Phase::Admitted
            | Phase::ReceiptMaterialized
            | Phase::Executed
            | Phase::Published
            | Phase::Failed => Vec::new(),
        },
    }
}

/// The changes when these nodes confirmed the owed step; none while more receipts are needed.
fn acked_changes(operation: &Operation, owed: &Effect, receipts: &[NodeReceipt], root: Hex32) -> Vec<Change> {
    let confirms = |check: fn(&Plan, &BTreeSet<ParticipantIndex>) -> bool| {
        operation.plan().is_some_and(|plan| check(&plan, &participants(receipts)))
    };
    match owed.id.step {
        EffectStep::Admission if confirms(Plan::is_enough) => {
            vec![Change::AdmissionApplied { receipts: receipts.to_vec() }]
        }
        EffectStep::PolicyReceipt if confirms(Plan::is_enough) => {
            vec![Change::ReceiptMaterialized {
                receipts: receipts.to_vec(),
                policy_receipt_id: root.to_string(),
            }]
        }
        EffectStep::CommitEpoch => epoch_acked_changes(operation, &owed.nodes, receipts),
        EffectStep::Publish if confirms(Plan::is_published) => {
            vec![Change::Published { receipts: receipts.to_vec(), publication_receipt: root.to_string() }]
        }
        EffectStep::Discard => discarded_changes(operation, &owed.nodes, receipts),
        EffectStep::Decision
        | EffectStep::Admission
        | EffectStep::PolicyReceipt
        | EffectStep::Execute
        | EffectStep::Publish => Vec::new(),
    }
}

/// The failure, once the nodes that have to discard the operation did. If only some receivers of new shares did, the others still
/// have to.
fn discarded_changes(
    operation: &Operation,
    owed: &BTreeSet<ParticipantIndex>,
    receipts: &[NodeReceipt],
) -> Vec<Change> {
    let Some(plan) = operation.plan() else { return Vec::new() };
    let mut receipts = receipts.to_vec();
    let is_complete = if let Phase::DiscardingRest { .. } = operation.phase {
        owed.is_subset(&participants(&receipts))
    } else {
        plan.is_discarded(&participants(&receipts))
    };
    if is_complete {
        return vec![failed(operation, receipts)];
    }
    receipts.retain(|receipt| {
        plan.receivers.contains(&receipt.participant) && owed.contains(&receipt.participant)
    });
    if receipts.is_empty() { Vec::new() } else { vec![Change::DiscardAcked { receipts }] }
}

/// The end of an operation that was aborted.
pub(super) fn failed(operation: &Operation, receipts: Vec<NodeReceipt>) -> Change {
    Change::Failed { failure: operation.reason_of_failure(), policy: None, receipts }
}

/// Records the nodes that promoted their new shares. With the last of them, the operation is executed.
fn epoch_acked_changes(
    operation: &Operation,
    unacked: &BTreeSet<ParticipantIndex>,
    receipts: &[NodeReceipt],
) -> Vec<Change> {
    let acked = receipts.iter().filter(|receipt| unacked.contains(&receipt.participant));
    let receipts: Vec<_> = acked.cloned().collect();
    if receipts.is_empty() {
        return Vec::new();
    }
    let is_complete = participants(&receipts) == *unacked;
    let mut changes = vec![Change::EpochAcked { receipts }];
    if is_complete {
        changes.extend(promoted_changes(operation));
    }
    changes
}

/// Execution of an operation whose new shares are active.
pub(super) fn promoted_changes(operation: &Operation) -> Vec<Change> {
    let result_ref = operation.staged.as_ref().and_then(|staged| staged.result_ref().ok());
    let executed = |result_ref| Change::Executed { result_ref, signature: None, receipts: Vec::new() };
    result_ref.map(|result_ref| executed_changes(operation, executed(result_ref))).unwrap_or_default()
}

/// Execution, followed by the request to publish in automatic mode.
fn executed_changes(operation: &Operation, executed: Change) -> Vec<Change> {
    [Some(executed), automatic_publication(operation)].into_iter().flatten().collect()
}

/// The request to publish that follows the execution; `None` in manual mode.
pub(super) fn automatic_publication(operation: &Operation) -> Option<Change> {
    let scope = match (operation.intent.publication_mode(), operation.intent.operation_type()) {
        (PublicationMode::Manual, _) => return None,
        (PublicationMode::Automatic, OperationType::Sign) => SIGNATURE_SCOPE,
        (
            PublicationMode::Automatic,
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover,
        ) => "epoch",
    };
    Some(Change::PublicationRequested { scope: scope.to_owned(), requested_at_ms: None })
}

/// The start of the next attempt, or the end of the operation when it has used all of them.
fn attempt_lost_changes(operation: &Operation, reason: &str, receipts: &[AttemptReceipt]) -> Vec<Change> {
    let Phase::Executing { attempt } = operation.phase else { return Vec::new() };
    let stages_epoch = operation.plan().is_some_and(|plan| plan.stages_epoch());
    if !stages_epoch || attempt < ATTEMPTS_MAX {
        return vec![Change::AttemptLost { attempt, reason: reason.to_owned(), receipts: receipts.to_vec() }];
    }
    let detail = format!("the ceremony failed {ATTEMPTS_MAX} times, the last time because {reason}");
    let failure = Failure { code: ATTEMPTS_EXHAUSTED.to_owned(), detail, culprits: Vec::new() };
    vec![give_up(operation, failure, None)]
}

/// Ends an operation before the point of no return. Nodes that may hold staged shares, or an admission to sign, have to
/// discard them before it is failed.
pub(super) fn give_up(operation: &Operation, failure: Failure, policy: Option<policy::Outcome>) -> Change {
    let must_discard = operation
        .plan()
        .is_some_and(|plan| !plan.stages_epoch() || matches!(operation.phase, Phase::Executing { .. }));
    if must_discard {
        Change::Aborted { failure }
    } else {
        Change::Failed { failure, policy, receipts: Vec::new() }
    }
}

fn ceremony_is_owed(operation: &Operation, stages_epoch: bool) -> bool {
    operation.may_get_result() && operation.plan().is_some_and(|plan| plan.stages_epoch() == stages_epoch)
}
