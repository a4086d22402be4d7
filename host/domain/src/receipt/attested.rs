//! From an operation's events to what its receipts must say.

use super::{NodeReceipt, ReceiptKind};
use crate::operation::{Change, Event, Operation, Phase};

/// The receipts of an event, and what each node of them did; none where nodes had no part in it. `before` is the operation
/// as the events before this one made it.
///
/// With [`Chain::of`](super::Chain::of) and [`Chain::statement`](super::Chain::statement) this is what
/// [`NodeReceipt::verify`] needs: nothing but the events, and the nodes' public keys.
#[must_use]
pub fn attested<'e>(before: &Operation, event: &'e Event) -> Option<(ReceiptKind, &'e [NodeReceipt])> {
    let attempt =
        if let Phase::Executing { attempt } = before.phase { attempt } else { before.executed_attempt() };
    let (deed, receipts) = match &event.change {
        Change::AdmissionApplied { receipts } => (ReceiptKind::Admitted, receipts),
        Change::ReceiptMaterialized { receipts, .. } => {
            (ReceiptKind::PolicyReceipt((&before.admission.as_ref()?.decision).into()), receipts)
        }
        Change::Executed { signature, receipts, .. } => {
            let signature = signature.as_deref()?;
            let (signed_digest, package_hash) = (signature.signed_digest, signature.package_hash);
            (ReceiptKind::Signed { attempt, signed_digest, package_hash }, receipts)
        }
        Change::EpochDecided { staged, receipts } => {
            (ReceiptKind::Staged { attempt, epoch_root: staged.epoch.root }, receipts)
        }
        Change::EpochAcked { receipts } => {
            (ReceiptKind::Promoted { attempt, epoch_root: before.staged.as_ref()?.epoch.root }, receipts)
        }
        Change::Published { receipts, .. } => {
            let (operation_type, result_ref) = (before.intent.operation_type(), before.result_ref?);
            (ReceiptKind::Published { attempt, operation_type, result_ref }, receipts)
        }
        Change::Failed { receipts, .. } => (ReceiptKind::Discarded, receipts),
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::ApprovalsWaived { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::DecisionSigned { .. }
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        | Change::AttemptLost { .. }
        | Change::PublicationRequested { .. }
        | Change::Aborted { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => return None,
    };
    (!receipts.is_empty()).then_some((deed, receipts))
}
