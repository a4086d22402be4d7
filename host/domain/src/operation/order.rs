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
        Change::QuorumReached => matches!(phase, Phase::Submitted | Phase::PendingApproval),
        Change::LateApprovalRecorded { .. } => !matches!(phase, Phase::Submitted | Phase::PendingApproval),
        Change::DecisionSigned { .. } => matches!(phase, Phase::Deciding),
        Change::AdmissionApplied { .. } => matches!(phase, Phase::Admitting),
        Change::ExecutionRequested { .. } => matches!(phase, Phase::Admitted),
        Change::ReceiptMaterialized { .. } => matches!(phase, Phase::IssuingReceipt),
        Change::CeremonyStarted { .. } => matches!(phase, Phase::ReceiptMaterialized),
        Change::AttemptLost { .. } | Change::EpochDecided { .. } => matches!(phase, Phase::Executing { .. }),
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
        Change::Executed { signature: Some(_), .. } => matches!(phase, Phase::Executing { .. }),
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
                // Earlier releases ended a signing operation here without discard receipts.
                | Phase::Executing { .. }
                | Phase::Discarding
        ),
        Change::ReplayNoted { .. } | Change::RecoveryRecorded(_) => !matches!(phase, Phase::Submitted),
    }
}
