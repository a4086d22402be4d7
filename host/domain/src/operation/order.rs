//! The order of events, for readers that do not trust the writer of a history.
//!
//! The gateway derives its events from the state and does not check their order. An auditor, who is handed a history, does.

use super::effect::{Failure, Outcome};
use super::event::{Change, Event};
use super::next::{Step, next};
use super::phase::Phase;
use super::state::Operation;
use super::{abort, approve, execute, export, postpone, publish, recover, settle};
use crate::ids::Hex32;
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
        Change::ApprovalsLapsed { .. } => {
            matches!(phase, Phase::PendingApproval | Phase::Deciding | Phase::Postponed { .. })
        }
        Change::ApprovalsWaived { .. } => {
            matches!(phase, Phase::PendingApproval) && matches!(operation.intent, Intent::KeyCreate(_))
        }
        Change::RejectionRecorded { rejection, .. } => {
            if rejection.lost.is_some() {
                operation.may_abort()
            } else {
                operation.may_be_rejected()
            }
        }
        Change::QuorumReached => matches!(phase, Phase::Submitted | Phase::PendingApproval),
        Change::LateApprovalRecorded { .. } => !matches!(phase, Phase::Submitted | Phase::PendingApproval),
        Change::AdmissionPostponed { .. } | Change::DecisionSigned { .. } => matches!(phase, Phase::Deciding),
        Change::AdmissionResumed => matches!(phase, Phase::Postponed { .. }),
        Change::AdmissionApplied { .. } => matches!(phase, Phase::Admitting),
        Change::ExecutionRequested { .. } => matches!(phase, Phase::Admitted),
        Change::ReceiptMaterialized { .. } => matches!(phase, Phase::IssuingReceipt),
        Change::CeremonyStarted { .. } => matches!(phase, Phase::ReceiptMaterialized),
        Change::AttemptLost { .. } => matches!(phase, Phase::Executing { .. }),
        Change::EpochDecided { .. } => operation.may_get_result(),
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
        Change::NodesGivenUp { .. } => operation.may_give_up_nodes(),
        Change::Executed { signature: Some(_), .. } => operation.may_get_result(),
        Change::Executed { signature: None, .. } => matches!(phase, Phase::CommittingEpoch { .. }),
        Change::PublicationRequested { .. } => matches!(phase, Phase::Executed),
        Change::Published { .. } => matches!(phase, Phase::Publishing),
        Change::ExternallyExported(_) => matches!(phase, Phase::Published),
        Change::Failed { .. } => may_fail(operation),
        Change::ReplayNoted { .. } | Change::RecoveryRecorded(_) => !matches!(phase, Phase::Submitted),
    }
}

const fn may_fail(operation: &Operation) -> bool {
    match operation.phase {
        Phase::PendingApproval
        | Phase::Deciding
        | Phase::Postponed { .. }
        | Phase::Discarding
        | Phase::DiscardingRest { .. } => true,
        // A node may have acted on the admission of a signature, so such an operation has to be discarded first.
        Phase::Admitting | Phase::Admitted | Phase::IssuingReceipt | Phase::ReceiptMaterialized => {
            !matches!(operation.intent.operation_type(), OperationType::Sign)
        }
        Phase::Submitted
        | Phase::Executing { .. }
        | Phase::CommittingEpoch { .. }
        | Phase::Executed
        | Phase::Publishing
        | Phase::Published
        | Phase::Failed => false,
    }
}

/// Why a gateway cannot have written the content of this event, which may follow by its type: it settles another effect than the
/// operation owed, states another outcome of it, or is not what the request that it names causes.
#[must_use]
pub fn contradicts_content(before: &Operation, event: &Event) -> Option<&'static str> {
    let Event { change, settles, .. } = event;
    match (settles, settled(change)) {
        (None, Settled::Always(_)) => return Some("the effect that caused the event is missing"),
        (Some(_), Settled::Never) => return Some("no effect causes such an event"),
        (Some(settled), Settled::Always(root) | Settled::Perhaps(root)) => {
            let Step::Perform(owed) = next(before) else { return Some("the operation owed no effect") };
            if settled.id != owed.id {
                return Some("the operation owed another effect");
            }
            if root != Some(settled.result_root) {
                return Some("the effect had another outcome");
            }
        }
        (None, Settled::Never | Settled::Perhaps(_)) => {}
    }
    if let Some(contradiction) = postpone::contradiction(before, event) {
        return Some(contradiction);
    }
    let stated = match change {
        Change::ReceiptMaterialized { policy_receipt_id, .. } => Some(policy_receipt_id),
        Change::Published { publication_receipt, .. } => Some(publication_receipt),
        _ => None,
    };
    let root = settles.as_ref().map(|settled| settled.result_root.to_string());
    if stated.is_some_and(|stated| Some(stated) != root.as_ref()) {
        return Some("the receipt's id is not the outcome of the effect");
    }
    requested(before, event).filter(|changes| changes.first() != Some(change)).map(|_| REQUEST)
}

const REQUEST: &str = "no request causes such an event in this state";

/// Whether an effect causes a change, with the digest of what the change has of its outcome. `None` for a value without a canonical form,
/// which does not occur.
enum Settled {
    Always(Option<Hex32>),
    /// By an effect, a request, or time.
    Perhaps(Option<Hex32>),
    Never,
}

/// The digest of the outcome that caused this change, as [`SettledEffect`](super::SettledEffect) has it.
pub(super) fn outcome_root(change: &Change) -> Option<Hex32> {
    match settled(change) {
        Settled::Always(root) | Settled::Perhaps(root) => root,
        Settled::Never => None,
    }
}

fn rejected(failure: &Failure) -> Option<Hex32> {
    Outcome::Rejected { failure: failure.clone(), policy: None }.result_root().ok()
}

fn settled(change: &Change) -> Settled {
    let of = |outcome: Outcome| Settled::Always(outcome.result_root().ok());
    match change {
        Change::DecisionSigned { admission, .. } => Settled::Always(Some(admission.admission_hash)),
        Change::AdmissionApplied { receipts }
        | Change::ReceiptMaterialized { receipts, .. }
        | Change::EpochAcked { receipts }
        | Change::DiscardAcked { receipts }
        | Change::Published { receipts, .. } => of(Outcome::Acked(receipts.clone())),
        Change::AttemptLost { reason, receipts, .. } => {
            of(Outcome::AttemptLost { reason: reason.clone(), receipts: receipts.clone() })
        }
        Change::EpochDecided { staged, .. } => Settled::Always(staged.result_ref().ok()),
        Change::Executed { result_ref, signature: Some(_), .. } => Settled::Always(Some(*result_ref)),
        Change::Aborted { failure } => Settled::Perhaps(rejected(failure)),
        Change::Failed { failure, receipts, .. } if receipts.is_empty() => Settled::Perhaps(rejected(failure)),
        Change::Failed { receipts, .. } => of(Outcome::Acked(receipts.clone())),
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::RejectionRecorded { .. }
        | Change::ApprovalsLapsed { .. }
        | Change::ApprovalsWaived { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::AdmissionPostponed { .. }
        | Change::AdmissionResumed
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        // After the last node's event, or after nodes were given up.
        | Change::Executed { signature: None, .. }
        | Change::PublicationRequested { .. }
        | Change::NodesGivenUp { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => Settled::Never,
    }
}

/// The changes that the request or the rule behind this event causes, where its content follows from the operation. `None` where it does
/// not.
fn requested(before: &Operation, event: &Event) -> Option<Vec<Change>> {
    let at = event.at_ms;
    let changes = match &event.change {
        Change::ApprovalRequested { .. } if before.policy.is_allowed() => {
            Ok(approve::request(&before.policy, at))
        }
        Change::ApprovalRequested { .. } => Ok(Vec::new()),
        Change::QuorumReached if before.policy.quorum.satisfied => Ok(vec![Change::QuorumReached]),
        Change::QuorumReached => Ok(Vec::new()),
        Change::ApprovalRecorded { approval, policy } => approve::decide(before, approval, Some(policy), at),
        Change::ApprovalsLapsed { lapsed, policy } => Ok(approve::lapse(before, lapsed, policy, at)),
        Change::ApprovalsWaived { policy } => Ok(approve::waive(before, policy, at)),
        Change::LateApprovalRecorded { approval } => approve::decide(before, approval, None, at),
        Change::AdmissionPostponed { policy, .. } => Ok(postpone::postponed(before, policy.as_ref(), at)),
        Change::AdmissionResumed => Ok(postpone::resume(before, at)),
        Change::CeremonyStarted { .. } => Ok(execute::begin_ceremony(before)),
        Change::PublicationRequested { requested_at_ms: None, .. } => {
            Ok(settle::automatic_publication(before).into_iter().collect())
        }
        Change::PublicationRequested { scope, requested_at_ms: Some(at) } => {
            publish::decide(before, scope, None, *at)
        }
        Change::NodesGivenUp { lost, reason } => abort::changes(before, "", reason, lost),
        Change::ReplayNoted { body_digest } => Ok(recover::note_replay(before, *body_digest)),
        Change::RecoveryRecorded(recovery) => {
            let at = recovery.recovered_at_ms;
            recover::decide(before, &recovery.effect_id, recovery.result_root, at)
        }
        Change::ExternallyExported(export) => {
            let receipt = before.publication_receipt.clone().unwrap_or_default();
            export::decide(before, &receipt, export)
        }
        Change::Submitted(_)
        | Change::RejectionRecorded { .. }
        | Change::DecisionSigned { .. }
        | Change::AdmissionApplied { .. }
        | Change::ExecutionRequested { .. }
        | Change::ReceiptMaterialized { .. }
        | Change::AttemptLost { .. }
        | Change::EpochDecided { .. }
        | Change::EpochAcked { .. }
        | Change::Executed { .. }
        | Change::Published { .. }
        | Change::Aborted { .. }
        | Change::DiscardAcked { .. }
        | Change::Failed { .. } => return None,
    };
    Some(changes.unwrap_or_default())
}
