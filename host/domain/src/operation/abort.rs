//! Aborts of a change of a key, for which a node is needed that does not answer. Approvers ask for them as they reject (`reject`).

use super::command::Refusal;
use super::effect::Failure;
use super::event::Change;
use super::phase::Phase;
use super::settle::{failed, give_up, promoted_changes};
use super::state::Operation;
use crate::intent::OperationType;
use crate::roster::ParticipantIndex;
use std::collections::BTreeSet;

/// The code of an operation that was aborted.
pub(super) const ABORTED: &str = "aborted";

/// The changes that an abort causes, by the approver who gives this reason; none when the operation is being discarded already. Before the
/// new shares are certain, the operation ends. After that it does without the lost receivers, of which so many must be left that the key
/// signs.
pub(super) fn changes(
    operation: &Operation,
    by: &str,
    reason: &str,
    lost: &BTreeSet<ParticipantIndex>,
) -> Result<Vec<Change>, Refusal> {
    if operation.intent.operation_type() == OperationType::Sign {
        return Err(refused("it is a signature, and only a change of a key can be aborted"));
    }
    match &operation.phase {
        Phase::Submitted | Phase::PendingApproval | Phase::Deciding | Phase::Postponed { .. } => {
            Err(refused("it is not admitted yet"))
        }
        Phase::Admitting
        | Phase::Admitted
        | Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
            if lost.is_empty() =>
        {
            Ok(vec![give_up(operation, Failure::said_by(ABORTED, by, reason), None)])
        }
        Phase::Discarding if lost.is_empty() => Ok(Vec::new()),
        Phase::Admitting
        | Phase::Admitted
        | Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
        | Phase::Discarding => {
            Err(refused("it waits for all receivers until its result is certain: name no lost ones"))
        }
        Phase::CommittingEpoch { .. }
        | Phase::Executed
        | Phase::Publishing
        | Phase::DiscardingRest { .. } => give_up_nodes(operation, reason, lost),
        Phase::Published => Err(refused("it is published")),
        Phase::Failed => Err(Refusal::Failed(operation.reason_of_failure())),
    }
}

fn give_up_nodes(
    operation: &Operation,
    reason: &str,
    lost: &BTreeSet<ParticipantIndex>,
) -> Result<Vec<Change>, Refusal> {
    debug_assert!(operation.may_give_up_nodes(), "{:?}", operation.phase);
    let receivers = operation.plan().map(|plan| plan.receivers).unwrap_or_default();
    let waits_for = match &operation.phase {
        Phase::CommittingEpoch { unacked: waiting, .. }
        | Phase::DiscardingRest { undiscarded: waiting, .. } => waiting,
        _ => &receivers,
    };
    if lost.is_empty() || !lost.is_subset(waits_for) {
        let names = waits_for.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(refused(&format!("its result is certain: name lost receivers, of {names}")));
    }
    if !operation.can_sign_without(lost) {
        return Err(refused("the other receivers are too few for a signature"));
    }
    let mut changes = vec![Change::NodesGivenUp { lost: lost.clone(), reason: reason.to_owned() }];
    match &operation.phase {
        Phase::CommittingEpoch { unacked, .. } if unacked.is_subset(lost) => {
            changes.extend(promoted_changes(operation));
        }
        Phase::DiscardingRest { undiscarded, .. } if undiscarded.is_subset(lost) => {
            changes.push(failed(operation, Vec::new()));
        }
        _ => {}
    }
    Ok(changes)
}

fn refused(why: &str) -> Refusal {
    Refusal::NotAbortable(why.to_owned())
}
