//! Requests to publish a result.

use super::command::Refusal;
use super::event::{Change, SIGNATURE_SCOPE};
use super::phase::Phase;
use super::state::Operation;
use crate::intent::{Intent, OperationType};
use crate::policy::PaidProof;

/// The changes that a request to publish causes; none when the publication is already requested or complete.
pub(super) fn decide(
    operation: &Operation,
    scope: &str,
    expected_result_ref: Option<&str>,
    requested_at_ms: i64,
) -> Result<Vec<Change>, Refusal> {
    check_scope(operation, scope)?;
    match &operation.phase {
        Phase::Submitted
        | Phase::PendingApproval
        | Phase::Deciding
        | Phase::Postponed { .. }
        | Phase::Admitting
        | Phase::Admitted
        | Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
        | Phase::CommittingEpoch { .. }
        | Phase::Discarding => {
            Err(Refusal::NotExecuted { missing: format!("its state is `{}`", operation.state().as_str()) })
        }
        Phase::Executed => {
            check_result(operation, expected_result_ref)?;
            Ok(vec![Change::PublicationRequested {
                scope: scope.to_owned(),
                requested_at_ms: Some(requested_at_ms),
            }])
        }
        Phase::Publishing | Phase::Published => {
            check_result(operation, expected_result_ref)?;
            Ok(Vec::new())
        }
        Phase::DiscardingRest { .. } | Phase::Failed => Err(Refusal::Failed(operation.reason_of_failure())),
    }
}

impl Operation {
    /// The proof that it paid its recipient, once it is a published payment: before, its signature is disclosed to no one.
    #[must_use]
    pub fn paid_proof(&self) -> Option<PaidProof> {
        match (&self.intent, &self.phase, &self.admission, &self.signature) {
            (Intent::Payment(_), Phase::Published, Some(admission), Some(signature)) => Some(PaidProof {
                intent: self.intent.clone(),
                decision: admission.envelope.clone(),
                signature: signature.signature_hex.parse().ok()?,
            }),
            _ => None,
        }
    }
}

fn check_scope(operation: &Operation, scope: &str) -> Result<(), Refusal> {
    match operation.intent.operation_type() {
        OperationType::Sign if scope != SIGNATURE_SCOPE => {
            Err(Refusal::PublicationScope { allowed: "`signature`" })
        }
        _ if scope.is_empty() => Err(Refusal::PublicationScope { allowed: "a non-empty string" }),
        OperationType::Sign
        | OperationType::KeyCreate
        | OperationType::Refresh
        | OperationType::Reshare
        | OperationType::Rotate
        | OperationType::Recover => Ok(()),
    }
}

fn check_result(operation: &Operation, expected: Option<&str>) -> Result<(), Refusal> {
    match (expected, operation.result_ref) {
        (Some(expected), Some(actual)) if expected != actual.to_string() => {
            Err(Refusal::ResultRefMismatch { actual })
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}
