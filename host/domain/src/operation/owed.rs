//! What an operation owes. After a crash this is all there is to know.

use super::Operation;
use super::command::Ask;
use super::effect::{Action, Effect, EffectId, EffectStep};
use super::phase::Phase;

/// What is to happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing until somebody asks.
    Rest,
    /// A record, without touching the world.
    Record(Box<Ask>),
    /// An effect.
    Perform(Effect),
}

/// What the operation owes in its phase.
#[must_use]
pub fn next(operation: &Operation) -> Step {
    let perform = |step, attempt, action| {
        Step::Perform(Effect { id: EffectId { operation: operation.id, step, attempt }, action })
    };
    match &operation.phase {
        Phase::Submitted
        | Phase::PendingApproval
        | Phase::Admitted
        | Phase::Executed
        | Phase::Published
        | Phase::Failed => Step::Rest,
        Phase::Deciding => perform(EffectStep::Decision, 1, Action::ObtainDecision),
        Phase::Applying => {
            perform(EffectStep::Admission, 1, Action::ApplyAdmission(operation.planned_nodes()))
        }
        Phase::Materializing => {
            perform(EffectStep::PolicyReceipt, 1, Action::MaterializeReceipt(operation.planned_nodes()))
        }
        Phase::ReceiptMaterialized => Step::Record(Box::new(Ask::BeginCeremony)),
        Phase::Preparing { attempt } => {
            perform(EffectStep::Execute, *attempt, Action::RunCeremony(operation.planned_nodes()))
        }
        Phase::Committing { attempt, unacked } => {
            perform(EffectStep::CommitEpoch, *attempt, Action::CommitEpoch(unacked.clone()))
        }
        Phase::Publishing => perform(EffectStep::Publish, 1, Action::Publish(operation.planned_nodes())),
        Phase::Discarding => perform(EffectStep::Discard, 1, Action::Discard(operation.planned_nodes())),
    }
}
