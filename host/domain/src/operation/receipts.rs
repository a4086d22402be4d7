//! The signed receipts that an operation's events carry.

use super::event::{Change, Event};
use super::state::Operation;
use crate::receipt::{AttemptReceipt, Chain, NodeReceipt, ReceiptKind};
use crate::roster::ParticipantIndex;

impl Operation {
    /// The chain of a node's receipts for this operation; `None` before the decision.
    #[must_use]
    pub fn receipt_chain(&self, participant: ParticipantIndex) -> Option<Chain> {
        let admission_hash = self.admission.as_ref()?.admission_hash;
        Some(Chain { admission_hash, operation_id: self.id, participant })
    }
}

/// The signed receipts of an event, each with its kind. Empty for an event without receipts, or when `before`, the operation
/// before the event, lacks what the receipts are about.
///
/// Together with [`Operation::receipt_chain`] and [`Chain::statement`] this is the input of [`NodeReceipt::verify`]: a
/// verifier needs only the events and the nodes' public keys.
#[must_use]
pub fn signed_receipts<'e>(before: &Operation, event: &'e Event) -> Vec<(ReceiptKind, &'e NodeReceipt)> {
    if let Change::AttemptLost { attempt, receipts, .. } = &event.change {
        let digest = before.admission.as_ref().map(|admission| admission.decision.request_digest);
        let kind = |of: &AttemptReceipt| Some(of.kind(*attempt, digest?));
        return receipts.iter().filter_map(|of| Some((kind(of)?, &of.receipt))).collect();
    }
    let of_one_kind = receipts_of_one_kind(before, event);
    of_one_kind.into_iter().flat_map(|(kind, receipts)| receipts.iter().map(move |of| (kind, of))).collect()
}

fn receipts_of_one_kind<'e>(
    before: &Operation,
    event: &'e Event,
) -> Option<(ReceiptKind, &'e [NodeReceipt])> {
    let attempt = before.executed_attempt();
    let (kind, receipts) = match &event.change {
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
        Change::DiscardAcked { receipts } | Change::Failed { receipts, .. } => {
            (ReceiptKind::Discarded, receipts)
        }
        Change::AttemptLost { .. }
        | Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::RejectionRecorded { .. }
        | Change::ApprovalsLapsed { .. }
        | Change::ApprovalsWaived { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::AdmissionPostponed { .. }
        | Change::AdmissionResumed
        | Change::DecisionSigned { .. }
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        | Change::PublicationRequested { .. }
        | Change::Aborted { .. }
        | Change::NodesGivenUp { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => return None,
    };
    Some((kind, receipts))
}
