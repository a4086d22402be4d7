//! Requests to execute an operation, and the start of its ceremony.

use super::command::Refusal;
use super::effect::Failure;
use super::event::Change;
use super::phase::Phase;
use super::settle::give_up;
use super::state::Operation;
use crate::intent::OperationType;
use crate::key::fit::{EPOCH_CONFLICT, EPOCH_FENCE_MISMATCH, KEY_NOT_ACTIVE, check_epoch, fence_holds};
use crate::key::{CustodyKey, KeyState};
use crate::time::EpochMs;

/// The changes that a request to execute causes; none when the operation is already executing or executed.
pub(super) fn decide(
    operation: &Operation,
    requested_at_ms: Option<i64>,
    key: Option<&CustodyKey>,
    at: EpochMs,
) -> Result<Vec<Change>, Refusal> {
    match &operation.phase {
        Phase::Submitted | Phase::PendingApproval | Phase::Deciding | Phase::Admitting => {
            Err(Refusal::NotExecuted { missing: missing_approvals(operation) })
        }
        Phase::Postponed { until_ms, .. } => {
            let until = until_ms.rfc3339().unwrap_or_else(|| until_ms.0.to_string());
            let missing = format!("its quorum is reached, but the policy does not admit it before {until}");
            Err(Refusal::NotExecuted { missing })
        }
        Phase::Admitted => start(operation, requested_at_ms, key, at),
        Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
        | Phase::CommittingEpoch { .. }
        | Phase::Executed
        | Phase::Publishing
        | Phase::Published
        // The drive loop sends the discard to the nodes again.
        | Phase::Discarding => Ok(Vec::new()),
        Phase::DiscardingRest { .. } | Phase::Failed => Err(Refusal::Failed(operation.reason_of_failure())),
    }
}

fn start(
    operation: &Operation,
    requested_at_ms: Option<i64>,
    key: Option<&CustodyKey>,
    at: EpochMs,
) -> Result<Vec<Change>, Refusal> {
    if let Some(expired) = expire(operation, at) {
        return Ok(vec![expired]);
    }
    if let Some(key) = key {
        if let Some((code, detail)) = left_behind(operation, key) {
            let failure = Failure { code: code.to_owned(), detail, culprits: Vec::new() };
            return Ok(vec![give_up(operation, failure, None)]);
        }
        check_key(operation, key)?;
    }
    Ok(vec![Change::ExecutionRequested { requested_at_ms }])
}

/// The end of an admitted operation whose decision is no longer valid.
pub(super) fn expire(operation: &Operation, at: EpochMs) -> Option<Change> {
    operation.admission.as_ref().filter(|admission| at >= admission.decision.not_after_ms)?;
    let failure = Failure {
        code: "admission_expired".to_owned(),
        detail: "the admission decision expired before execution".to_owned(),
        culprits: Vec::new(),
    };
    Some(give_up(operation, failure, None))
}

/// The code and reason when the key has changed so that the operation can never be executed: epochs do not come back.
fn left_behind(operation: &Operation, key: &CustodyKey) -> Option<(&'static str, String)> {
    if !fence_holds(&operation.intent, key.epoch.root) {
        let root = key.epoch.root;
        return Some((
            EPOCH_FENCE_MISMATCH,
            format!("`epoch_fence_token_hex` is not the key's active epoch root `{root}`"),
        ));
    }
    if operation.intent.operation_type() == OperationType::KeyCreate {
        return None;
    }
    if key.state == KeyState::Rotated {
        return Some((
            KEY_NOT_ACTIVE,
            "the key was rotated: submit the operation for its successor".to_owned(),
        ));
    }
    let decision = operation.admission.as_ref().map(|admission| &admission.decision);
    let left = decision.filter(|decision| decision.epoch_root != key.epoch.root)?;
    let (now, admitted_in) = (&key.epoch.name, &left.epoch);
    let detail = format!(
        "the key is in epoch `{now}`, but the operation was admitted in `{admitted_in}`: submit it again"
    );
    Some((EPOCH_CONFLICT, detail))
}

/// Checks that the key can sign or be changed now.
fn check_key(operation: &Operation, key: &CustodyKey) -> Result<(), Refusal> {
    match operation.intent.operation_type() {
        OperationType::Sign if key.state.can_sign() => Ok(()),
        OperationType::KeyCreate => Ok(()),
        OperationType::Sign => Err(Refusal::KeyNotActive { state: key.state.as_str() }),
        OperationType::Refresh | OperationType::Reshare | OperationType::Rotate | OperationType::Recover => {
            check_change(operation, key)
        }
    }
}

/// Checks that the key can be changed now: no other operation is changing it, it signs, and the requested epoch can follow.
fn check_change(operation: &Operation, key: &CustodyKey) -> Result<(), Refusal> {
    if key.busy_with.is_some_and(|holder| holder != operation.id) {
        return Err(Refusal::KeyBusy);
    }
    if !key.state.can_sign() {
        return Err(Refusal::KeyNotActive { state: key.state.as_str() });
    }
    check_epoch(key, &operation.intent)
}

/// Records the start of the ceremony, before any node takes part in it.
pub(super) fn begin_ceremony(operation: &Operation) -> Vec<Change> {
    if operation.phase == Phase::ReceiptMaterialized {
        vec![Change::CeremonyStarted { attempt: 1 }]
    } else {
        Vec::new()
    }
}

/// The condition of execution that is not met, for people.
fn missing_approvals(operation: &Operation) -> String {
    let quorum = &operation.policy.quorum;
    if quorum.satisfied {
        "its quorum is reached, but the nodes have not yet confirmed the admission".to_owned()
    } else {
        format!("it has {} of {} approvals", quorum.subjects.len(), quorum.required)
    }
}
