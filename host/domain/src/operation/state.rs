//! The state of an operation, folded from its events. The fold never fails, and does not check the order of the events.

use super::effect::{Failure, SignatureResult};
use super::event::ExportState;
use super::event::{Change, Event, ExternalExport, KeySlot, Recovery, SettledEffect, Submission};
use super::phase::{NextAction, Phase, State};
use crate::admission::Admission;
use crate::approval::limits::CLOCK_SKEW_MS;
use crate::approval::{Approval, ApprovalError, ApprovalSubject, check_claimed_time};
use crate::binding::ClientBinding;
use crate::ids::{Hex32, OperationId, Tenant};
use crate::intent::{Intent, OperationType};
use crate::key::Staged;
use crate::policy;
use crate::receipt::NodeReceipt;
use crate::step::EffectStep;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};

/// An operation, folded from its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The operation's permanent id.
    pub id: OperationId,
    /// The number of events so far. The store compares it before it writes.
    pub revision: u64,
    /// The tenant that owns the operation.
    pub tenant: Tenant,
    /// The client that submitted it.
    pub submitter: ClientBinding,
    /// The requested work.
    pub intent: Intent,
    /// Hash of the canonical intent: approvals, admission and nodes bind to it.
    pub intent_hash: Hex32,
    /// The key that the operation signs with, creates or changes.
    pub key: KeySlot,
    /// The key that a rotation creates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<KeySlot>,
    /// Digest of the request body.
    pub body_digest: Hex32,
    /// The phase that the operation is in.
    pub phase: Phase,
    /// The approvals that count, oldest first, at most one for each subject.
    pub approvals: Vec<Approval>,
    /// The subjects of recorded approvals that arrived after the quorum.
    pub late_approvals: Vec<String>,
    /// The latest recorded policy evaluation.
    pub policy: policy::Outcome,
    /// The signed decision, once the authority has made it.
    pub admission: Option<Box<Admission>>,
    /// The contract's `policy_receipt_id`; empty until the receipt is issued.
    pub policy_receipt_id: String,
    /// The new shares, from `EpochDecided` on.
    pub staged: Option<Box<Staged>>,
    /// The receipts of nodes for attempts that they discarded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded_attempts: Vec<NodeReceipt>,
    /// The receipts of all receivers of new shares, that they have staged them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub staged_receipts: Vec<NodeReceipt>,
    /// The receipts of the receivers that have promoted them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub promoted_receipts: Vec<NodeReceipt>,
    /// The result, once executed.
    pub result_ref: Option<Hex32>,
    /// The signature, if the operation made one.
    pub signature: Option<Box<SignatureResult>>,
    /// The receipt, once published.
    pub publication_receipt: Option<String>,
    /// The state of the external export.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub export: Option<ExternalExport>,
    /// The reason why it failed, or is being discarded.
    pub failure: Option<Failure>,
    /// Effects that have completed, in order.
    pub settled: Vec<SettledEffect>,
    /// Recorded digests of other bodies that arrived under the same idempotency key.
    pub replays: Vec<Hex32>,
    /// The recorded node recoveries, in order.
    pub recoveries: Vec<Recovery>,
    /// The time of submission.
    pub created_at_ms: EpochMs,
    /// The time of the latest event.
    pub updated_at_ms: EpochMs,
}

impl Operation {
    /// The contract's `state`. A signing operation in `Discarding` is still `executing`: a signature may exist.
    #[must_use]
    pub const fn state(&self) -> State {
        if self.is_discarding_signature() { State::Executing } else { self.phase.state() }
    }

    const fn is_discarding_signature(&self) -> bool {
        matches!((&self.phase, self.intent.operation_type()), (Phase::Discarding, OperationType::Sign))
    }

    /// The endpoints that a caller may use to advance it. A published custody signature can be exported until the export is
    /// settled.
    #[must_use]
    pub fn next_actions(&self) -> &'static [NextAction] {
        let is_settled = self.export.as_ref().is_some_and(|export| export.state == ExportState::Settled);
        match (&self.intent, &self.phase) {
            (Intent::AssetAction(_), Phase::Published) if !is_settled => &[NextAction::ExternalExport],
            _ if self.is_discarding_signature() => &[NextAction::Execute],
            (_, phase) => phase.next_actions(self.intent.publication_mode()),
        }
    }

    /// The time at which it fails if the authority has not decided by then. `None` once it has, and after a failure.
    #[must_use]
    pub const fn approvals_expire_at(&self, approval_ttl_ms: u64) -> Option<EpochMs> {
        if matches!(self.phase, Phase::PendingApproval | Phase::Deciding) {
            Some(self.created_at_ms.plus_ms(approval_ttl_ms))
        } else {
            None
        }
    }

    /// The part of the approval statement that is the same for all approvers.
    #[must_use]
    pub const fn approval_subject(&self) -> ApprovalSubject<'_> {
        let Self { tenant, id, key, intent_hash, submitter, .. } = self;
        ApprovalSubject {
            tenant,
            operation_id: *id,
            key_id: key.key_id,
            intent_hash: *intent_hash,
            submitter: submitter.subject_id.as_str(),
        }
    }

    /// Checks that the approver's clock gave a time between the submission and `now`, with a tolerance of
    /// [`CLOCK_SKEW_MS`]. An earlier approval may belong to another operation with the same id: a gateway with a new
    /// database derives the same id from the same idempotency key.
    ///
    /// # Errors
    /// [`ApprovalError`]: `InFuture`, `TooOld`.
    pub fn check_approval_time(&self, claimed_at_ms: i64, now: EpochMs) -> Result<(), ApprovalError> {
        let submitted = EpochMs(self.created_at_ms.0.saturating_sub(CLOCK_SKEW_MS));
        check_claimed_time(claimed_at_ms, submitted, now)
    }

    /// The latest attempt of the ceremony that is settled; once executed, the one that produced the result. 1 before any.
    #[must_use]
    pub fn executed_attempt(&self) -> u32 {
        let settled = self.settled.iter().rev().map(|settled| settled.id);
        settled.filter(|id| id.step == EffectStep::Execute).map(|id| id.attempt).next().unwrap_or(1)
    }
}

/// Folds a list of events. `None` when it does not begin with a submission.
#[must_use]
pub fn replay(events: &[Event]) -> Option<Operation> {
    let (first, rest) = events.split_first()?;
    let Change::Submitted(submission) = &first.change else { return None };
    Some(rest.iter().fold(submitted(submission, first.at_ms), evolve))
}

/// The operation right after its submission.
fn submitted(submission: &Submission, at: EpochMs) -> Operation {
    Operation {
        id: submission.operation_id,
        revision: 1,
        tenant: submission.tenant.clone(),
        submitter: submission.submitter.clone(),
        intent: submission.intent.clone(),
        intent_hash: submission.intent_hash,
        key: submission.key.clone(),
        successor: submission.successor.clone(),
        body_digest: submission.body_digest,
        phase: Phase::Submitted,
        approvals: Vec::new(),
        late_approvals: Vec::new(),
        policy: submission.policy.clone(),
        admission: None,
        policy_receipt_id: String::new(),
        staged: None,
        discarded_attempts: Vec::new(),
        staged_receipts: Vec::new(),
        promoted_receipts: Vec::new(),
        result_ref: None,
        signature: None,
        publication_receipt: None,
        export: None,
        failure: None,
        settled: Vec::new(),
        replays: Vec::new(),
        recoveries: Vec::new(),
        created_at_ms: at,
        updated_at_ms: at,
    }
}

/// Applies one event to the operation.
#[must_use]
pub fn evolve(mut operation: Operation, event: &Event) -> Operation {
    operation.revision = operation.revision.saturating_add(1);
    operation.updated_at_ms = event.at_ms;
    operation.settled.extend(event.settles.clone());
    match &event.change {
        Change::Submitted(_) => {}
        Change::ReplayNoted { body_digest } => operation.replays.push(*body_digest),
        Change::ApprovalRequested { .. } => operation.phase = Phase::PendingApproval,
        Change::ApprovalRecorded { approval, policy } => {
            operation.approvals.push(approval.clone());
            operation.policy = policy.clone();
        }
        Change::ApprovalsWaived { policy } => operation.policy = policy.clone(),
        Change::LateApprovalRecorded { approval } => {
            operation.late_approvals.push(approval.subject_id.clone())
        }
        Change::QuorumReached => operation.phase = Phase::Deciding,
        Change::DecisionSigned { policy, admission } => {
            operation.policy = policy.clone();
            operation.admission = Some(admission.clone());
            operation.phase = Phase::Admitting;
        }
        Change::AdmissionApplied { .. } => operation.phase = Phase::Admitted,
        Change::ExecutionRequested { .. } => operation.phase = Phase::IssuingReceipt,
        Change::ReceiptMaterialized { policy_receipt_id, .. } => {
            operation.policy_receipt_id.clone_from(policy_receipt_id);
            operation.phase = Phase::ReceiptMaterialized;
        }
        Change::CeremonyStarted { attempt } => operation.phase = Phase::Executing { attempt: *attempt },
        Change::AttemptLost { attempt, receipts, .. } => {
            operation.discarded_attempts.extend_from_slice(receipts);
            operation.phase = Phase::Executing { attempt: attempt.saturating_add(1) };
        }
        Change::EpochDecided { staged, receipts } => {
            operation.staged = Some(staged.clone());
            operation.staged_receipts.clone_from(receipts);
            let unacked = operation.plan().map(|plan| plan.receivers).unwrap_or_default();
            operation.phase = Phase::CommittingEpoch { attempt: 1, unacked };
        }
        Change::EpochAcked { receipts } => {
            operation.promoted_receipts.extend_from_slice(receipts);
            remove_acked(&mut operation, receipts);
        }
        Change::Executed { result_ref, signature, .. } => {
            operation.result_ref = Some(*result_ref);
            operation.signature.clone_from(signature);
            operation.phase = Phase::Executed;
        }
        Change::PublicationRequested { .. } => operation.phase = Phase::Publishing,
        Change::Published { publication_receipt, .. } => {
            operation.publication_receipt = Some(publication_receipt.clone());
            operation.phase = Phase::Published;
        }
        Change::Aborted { failure } => {
            operation.failure = Some(failure.clone());
            operation.phase = Phase::Discarding;
        }
        Change::Failed { failure, policy, .. } => {
            operation.failure = Some(failure.clone());
            operation.policy = policy.clone().unwrap_or(operation.policy);
            operation.phase = Phase::Failed;
        }
        Change::RecoveryRecorded(recovery) => operation.recoveries.push(recovery.clone()),
        Change::ExternallyExported(export) => operation.export = Some(export.clone()),
    }
    operation
}

fn remove_acked(operation: &mut Operation, receipts: &[NodeReceipt]) {
    if let Phase::CommittingEpoch { attempt, unacked } = &mut operation.phase {
        *attempt = attempt.saturating_add(1);
        unacked.retain(|node| !receipts.iter().any(|receipt| receipt.participant == *node));
    }
}
