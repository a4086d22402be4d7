//! The step that an operation owes. It follows from the state alone, so recovery after a crash needs nothing else.

use super::command::Action;
use super::effect::Effect;
use super::event::Change;
use super::phase::Phase;
use super::state::Operation;
use crate::intent::OperationType;
use crate::step::{EffectId, EffectStep};
use std::collections::BTreeSet;

/// The next step of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do: the operation waits for a caller, or is final.
    Rest,
    /// An action to decide and commit, without any effect outside the store.
    Record(Box<Action>),
    /// An effect outside the store.
    Perform(Effect),
}

/// The step that the operation owes in its phase.
#[must_use]
pub fn next(operation: &Operation) -> Step {
    let perform_on = |nodes, step, attempt| {
        Step::Perform(Effect { id: EffectId { operation: operation.id, step, attempt }, nodes })
    };
    let perform = |step, attempt| perform_on(operation.planned_nodes(), step, attempt);
    match &operation.phase {
        Phase::Submitted
        | Phase::PendingApproval
        | Phase::Postponed { .. }
        | Phase::Admitted
        | Phase::Executed
        | Phase::Published
        | Phase::Failed => Step::Rest,
        Phase::Deciding => perform_on(BTreeSet::new(), EffectStep::Decision, 1),
        Phase::Admitting => perform(EffectStep::Admission, 1),
        Phase::IssuingReceipt => perform(EffectStep::PolicyReceipt, 1),
        Phase::ReceiptMaterialized => Step::Record(Box::new(Action::BeginCeremony)),
        Phase::Executing { attempt } => perform(EffectStep::Execute, *attempt),
        Phase::CommittingEpoch { attempt, unacked } => {
            perform_on(unacked.clone(), EffectStep::CommitEpoch, *attempt)
        }
        Phase::Publishing => perform(EffectStep::Publish, 1),
        Phase::Discarding => perform(EffectStep::Discard, 1),
        Phase::DiscardingRest { round, undiscarded } => {
            perform_on(undiscarded.clone(), EffectStep::Discard, *round)
        }
    }
}

/// Whether a change of a signature may become durable with the outcome of the effect that follows it, in one commit, and not before the
/// effect. If the process ends between the two, the change is lost, and nodes answer a repeat of the effect as they answered this one:
///
/// - The last approval: the approver has no answer, and approves again or does not. The authority decides anew.
/// - The policy receipts and the start of the first attempt: the operation owes the receipts again, and the result of that attempt counts
///   from the request to execute on. A later attempt begins with the nodes' word that the one before has ended, which must not be lost.
/// - The request to publish: the operation rests until it is published again.
///
/// Every other change makes something of what authorities and nodes did count, or lets them do what can be done once.
#[must_use]
pub const fn may_wait_for_outcome(operation: &Operation, change: &Change) -> bool {
    let waits = matches!(
        change,
        Change::ApprovalRecorded { .. }
            | Change::QuorumReached
            | Change::ReceiptMaterialized { .. }
            | Change::CeremonyStarted { attempt: 1 }
            | Change::PublicationRequested { .. }
    );
    waits && matches!(operation.intent.operation_type(), OperationType::Sign)
}
