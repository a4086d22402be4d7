//! The order of events, for readers that do not trust the writer of a history.
//!
//! The gateway derives its events from the state and does not check their order. An auditor, who is handed a history, does.

use super::event::Change;
use super::phase::Phase;
use super::state::Operation;
use crate::intent::{Intent, OperationType};

/// Whether this type of change can come next, by the operation's phase and intent. The content of the change is not
/// checked.
#[must_use]
pub const fn may_follow(operation: &Operation, change: &Change) -> bool {
    let phase = &operation.phase;
    match change {
        // Only the first event submits.
        Change::Submitted(_) => false,
        Change::ApprovalRequested { .. } => matches!(phase, Phase::Submitted),
        Change::ApprovalRecorded { .. } => matches!(phase, Phase::PendingApproval),
        Change::ApprovalsWaived { .. } => {
            matches!(phase, Phase::PendingApproval) && matches!(operation.intent, Intent::KeyCreate(_))
        }
        Change::RejectionRecorded { rejection, .. } => {
            if rejection.lost.is_some() { operation.may_abort() } else { operation.may_be_rejected() }
        }
        Change::QuorumReached => matches!(phase, Phase::Submitted | Phase::PendingApproval),
        Change::LateApprovalRecorded { .. } => !matches!(phase, Phase::Submitted | Phase::PendingApproval),
        Change::DecisionSigned { .. } => matches!(phase, Phase::Deciding),
        Change::AdmissionApplied { .. } => matches!(phase, Phase::Admitting),
        Change::ExecutionRequested { .. } => matches!(phase, Phase::Admitted),
        Change::ReceiptMaterialized { .. } => matches!(phase, Phase::IssuingReceipt),
        Change::CeremonyStarted { .. } => matches!(phase, Phase::ReceiptMaterialized),
        Change::AttemptLost { .. } => matches!(phase, Phase::Executing { .. }),
        Change::EpochDecided { .. } => may_get_result(operation),
        Change::Aborted { .. } => match operation.intent.operation_type() {
            OperationType::Sign => matches!(
                phase,
                Phase::Admitting | Phase::Admitted | Phase::IssuingReceipt | Phase::Executing { .. }
            ),
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => matches!(phase, Phase::Executing { .. }),
        },
        Change::EpochAcked { .. } => matches!(phase, Phase::CommittingEpoch { .. }),
        Change::DiscardAcked { .. } => match operation.intent.operation_type() {
            OperationType::Sign => false,
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => {
                matches!(phase, Phase::Discarding | Phase::DiscardingRest { .. })
            }
        },
        Change::NodesGivenUp { .. } => may_give_up_nodes(operation),
        Change::Executed { signature: Some(_), .. } => may_get_result(operation),
        Change::Executed { signature: None, .. } => matches!(phase, Phase::CommittingEpoch { .. }),
        Change::PublicationRequested { .. } => matches!(phase, Phase::Executed),
        Change::Published { .. } => matches!(phase, Phase::Publishing),
        Change::ExternallyExported(_) => matches!(phase, Phase::Published),
        Change::Failed { .. } => matches!(
            phase,
            Phase::PendingApproval
                | Phase::Deciding
                | Phase::Admitting
                | Phase::Admitted
                | Phase::IssuingReceipt
                | Phase::ReceiptMaterialized
                // Earlier releases ended a signing operation here without discard receipts.
                | Phase::Executing { .. }
                | Phase::Discarding
                | Phase::DiscardingRest { .. }
        ),
        Change::ReplayNoted { .. } | Change::RecoveryRecorded(_) => !matches!(phase, Phase::Submitted),
    }
}

impl Operation {
    /// Whether it is a change of a key that can be aborted, or do without lost receivers.
    #[must_use]
    pub const fn may_abort(&self) -> bool {
        let is_admitted = matches!(
            self.phase,
            Phase::Admitting
                | Phase::Admitted
                | Phase::IssuingReceipt
                | Phase::ReceiptMaterialized
                | Phase::Executing { .. }
        );
        may_give_up_nodes(self)
            || (is_admitted && !matches!(self.intent.operation_type(), OperationType::Sign))
    }
}

/// Whether a ceremony has begun, and its result counts: that of an operation that was given up does, if the nodes had completed it.
pub(super) const fn may_get_result(operation: &Operation) -> bool {
    operation.attempt > 0 && matches!(operation.phase, Phase::Executing { .. } | Phase::Discarding)
}

/// Whether the operation waits for receivers of new shares after its result, or its failure, is certain.
pub(super) const fn may_give_up_nodes(operation: &Operation) -> bool {
    match operation.intent.operation_type() {
        OperationType::Sign => false,
        OperationType::KeyCreate
        | OperationType::Refresh
        | OperationType::Reshare
        | OperationType::Rotate
        | OperationType::Recover => matches!(
            operation.phase,
            Phase::CommittingEpoch { .. }
                | Phase::Executed
                | Phase::Publishing
                | Phase::DiscardingRest { .. }
        ),
    }
}
