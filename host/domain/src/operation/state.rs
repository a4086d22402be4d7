//! The state of an operation, folded from its events. The fold never fails, and does not check the order of the events.

use super::effect::{Failure, SignatureResult};
use super::event::ExportState;
use super::event::{Change, Event, ExternalExport, KeySlot, Recovery, SettledEffect, Submission};
use super::phase::{NextAction, Phase, State};
use crate::admission::Admission;
use crate::approval::limits::CLOCK_SKEW_MS;
use crate::approval::{
    Approval, ApprovalError, ApprovalSubject, LapsedApproval, Rejection, check_claimed_time,
};
use crate::binding::ClientBinding;
use crate::ids::{Hex32, OperationId, Tenant};
use crate::intent::{Intent, OperationType};
use crate::key::Staged;
use crate::names::is_same_person;
use crate::policy;
use crate::receipt::{AttemptReceipt, NodeReceipt, participants};
use crate::roster::ParticipantIndex;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// The approvals that no longer count, oldest first. One may be there and, given anew, in `approvals`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lapsed_approvals: Vec<LapsedApproval>,
    /// The subjects of recorded approvals that arrived after the quorum.
    pub late_approvals: Vec<String>,
    /// The rejections, oldest first, at most one for each subject before the admission, and after it for each subject and lost receivers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rejections: Vec<Rejection>,
    /// The latest recorded policy evaluation.
    pub policy: policy::Outcome,
    /// The time for which it was postponed, milliseconds, without a wait that has not ended.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub postponed_ms: u64,
    /// The signed decision, once the authority has made it.
    pub admission: Option<Box<Admission>>,
    /// The contract's `policy_receipt_id`; empty until the receipt is issued.
    pub policy_receipt_id: String,
    /// The last attempt at the ceremony that began; 0 before the first.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attempt: u32,
    /// The new shares, from `EpochDecided` on.
    pub staged: Option<Box<Staged>>,
    /// The receipts of nodes for attempts that they will not complete.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded_attempts: Vec<AttemptReceipt>,
    /// The receipts of all receivers of new shares, that they have staged them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub staged_receipts: Vec<NodeReceipt>,
    /// The receipts of receivers that discarded the operation, after which others still have to.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded_receipts: Vec<NodeReceipt>,
    /// The receivers that were given up after the new shares, or the failure, were certain. The operation does without them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub given_up: BTreeSet<ParticipantIndex>,
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

fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}

impl Operation {
    /// The contract's `state`.
    #[must_use]
    pub const fn state(&self) -> State {
        self.phase.state()
    }

    /// The endpoints that a caller may use to advance it. A published custody signature can be exported until the export is
    /// settled.
    #[must_use]
    pub fn next_actions(&self) -> &'static [NextAction] {
        let is_settled = self.export.as_ref().is_some_and(|export| export.state == ExportState::Settled);
        match (&self.intent, &self.phase) {
            (Intent::AssetAction(_), Phase::Published) if !is_settled => &[NextAction::ExternalExport],
            (_, phase) => phase.next_actions(self.intent.publication_mode()),
        }
    }

    /// The time at which it fails if the authority has not decided by then: the time for which it is postponed does not count, and it is
    /// at least until the time that it is postponed to. `None` once the authority has decided, and after a failure.
    #[must_use]
    pub fn approvals_expire_at(&self, approval_ttl_ms: u64) -> Option<EpochMs> {
        let waits_ms = if let Phase::Postponed { since_ms, until_ms } = self.phase {
            until_ms.0.saturating_sub(since_ms.0)
        } else if matches!(self.phase, Phase::PendingApproval | Phase::Deciding) {
            0
        } else {
            return None;
        };
        let expires_at = self.created_at_ms.plus_ms(approval_ttl_ms);
        Some(expires_at.plus_ms(self.postponed_ms).plus_ms(waits_ms))
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

    /// The last attempt at the ceremony; once executed, the one that produced the result. 1 before any.
    #[must_use]
    pub const fn executed_attempt(&self) -> u32 {
        if self.attempt == 0 { 1 } else { self.attempt }
    }

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
        self.may_give_up_nodes()
            || (is_admitted && !matches!(self.intent.operation_type(), OperationType::Sign))
    }

    /// Whether a ceremony has begun, and its result counts: that of an operation that was given up does, if the nodes had completed it.
    pub(super) const fn may_get_result(&self) -> bool {
        self.attempt > 0 && matches!(self.phase, Phase::Executing { .. } | Phase::Discarding)
    }

    /// Whether the operation waits for receivers of new shares after its result, or its failure, is certain.
    pub(super) const fn may_give_up_nodes(&self) -> bool {
        match self.intent.operation_type() {
            OperationType::Sign => false,
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => matches!(
                self.phase,
                Phase::CommittingEpoch { .. }
                    | Phase::Executed
                    | Phase::Publishing
                    | Phase::DiscardingRest { .. }
            ),
        }
    }

    /// The reason why the operation failed.
    pub(super) fn reason_of_failure(&self) -> Failure {
        self.failure.clone().unwrap_or_else(|| Failure {
            code: "failed".to_owned(),
            detail: format!("operation `{}` failed", self.id),
            culprits: Vec::new(),
        })
    }
}

/// Folds a list of events. `None` when it does not begin with a submission.
#[must_use]
pub fn replay<'e>(events: impl IntoIterator<Item = &'e Event>) -> Option<Operation> {
    let mut events = events.into_iter();
    let first = events.next()?;
    let Change::Submitted(submission) = &first.change else { return None };
    Some(events.fold(submitted(submission, first.at_ms), evolve))
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
        lapsed_approvals: Vec::new(),
        late_approvals: Vec::new(),
        rejections: Vec::new(),
        policy: submission.policy.clone(),
        postponed_ms: 0,
        admission: None,
        policy_receipt_id: String::new(),
        attempt: 0,
        staged: None,
        discarded_attempts: Vec::new(),
        staged_receipts: Vec::new(),
        discarded_receipts: Vec::new(),
        given_up: BTreeSet::new(),
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

/// The operation after one event.
#[must_use]
pub fn evolve(mut operation: Operation, event: &Event) -> Operation {
    apply(&mut operation, event);
    operation
}

/// Applies one event to the operation.
pub fn apply(operation: &mut Operation, event: &Event) {
    operation.revision = operation.revision.saturating_add(1);
    operation.updated_at_ms = event.at_ms;
    operation.settled.extend(event.settles.clone());
    let postponed_since = operation.postponed_since();
    apply_change(operation, event);
    if let (Some(since), None) = (postponed_since, operation.postponed_since()) {
        let waited_ms = event.at_ms.0.saturating_sub(since.0);
        operation.postponed_ms = operation.postponed_ms.saturating_add(waited_ms);
    }
}

fn apply_change(operation: &mut Operation, event: &Event) {
    match &event.change {
        Change::Submitted(_) => {}
        Change::ReplayNoted { body_digest } => operation.replays.push(*body_digest),
        Change::ApprovalRequested { .. } => operation.phase = Phase::PendingApproval,
        Change::ApprovalRecorded { approval, policy } => {
            operation.approvals.push(approval.clone());
            operation.policy = policy.clone();
        }
        Change::RejectionRecorded { rejection, .. } => operation.rejections.push(rejection.clone()),
        Change::ApprovalsLapsed { lapsed, policy } => approvals_lapsed(operation, lapsed, policy),
        Change::ApprovalsWaived { policy } => operation.policy = policy.clone(),
        Change::LateApprovalRecorded { approval } => {
            operation.late_approvals.push(approval.subject_id.clone())
        }
        Change::QuorumReached | Change::AdmissionResumed => operation.phase = Phase::Deciding,
        Change::AdmissionPostponed { until_ms, policy } => {
            operation.policy = policy.as_ref().unwrap_or(&operation.policy).clone();
            operation.phase = Phase::Postponed { since_ms: event.at_ms, until_ms: *until_ms };
        }
        Change::DecisionSigned { policy, admission } => {
            operation.policy = policy.clone();
            operation.admission = Some(admission.clone());
            operation.phase = Phase::Admitting;
        }
        Change::AdmissionApplied { .. } => operation.phase = Phase::Admitted,
        Change::ExecutionRequested { .. } => execution_requested(operation),
        Change::ReceiptMaterialized { policy_receipt_id, .. } => {
            operation.policy_receipt_id.clone_from(policy_receipt_id);
            operation.phase = Phase::ReceiptMaterialized;
        }
        Change::CeremonyStarted { attempt } => begin_attempt(operation, *attempt),
        Change::AttemptLost { attempt, receipts, .. } => {
            operation.discarded_attempts.extend_from_slice(receipts);
            begin_attempt(operation, attempt.saturating_add(1));
        }
        Change::EpochDecided { staged, receipts } => epoch_decided(operation, staged, receipts),
        Change::EpochAcked { receipts } => {
            operation.promoted_receipts.extend_from_slice(receipts);
            remove_unconfirmed(&mut operation.phase, &participants(receipts));
        }
        Change::Executed { result_ref, signature, .. } => {
            operation.result_ref = Some(*result_ref);
            operation.failure = None;
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
        Change::DiscardAcked { receipts } => {
            operation.discarded_receipts.extend_from_slice(receipts);
            discard_acked(operation, &participants(receipts));
        }
        Change::NodesGivenUp { lost, .. } => nodes_given_up(operation, lost),
        Change::Failed { failure, policy, .. } => {
            operation.failure = Some(failure.clone());
            if let Some(policy) = policy {
                operation.policy = policy.clone();
            }
            operation.phase = Phase::Failed;
        }
        Change::RecoveryRecorded(recovery) => operation.recoveries.push(recovery.clone()),
        Change::ExternallyExported(export) => operation.export = Some(export.clone()),
    }
}

/// Approvals no longer count.
fn approvals_lapsed(operation: &mut Operation, lapsed: &[LapsedApproval], policy: &policy::Outcome) {
    operation.approvals = operation.approvals_without(lapsed);
    // Of a person whose approval lapsed before, the last reason.
    let again =
        |one: &LapsedApproval| lapsed.iter().any(|other| is_same_person(&other.subject_id, &one.subject_id));
    operation.lapsed_approvals.retain(|one| !again(one));
    operation.lapsed_approvals.extend_from_slice(lapsed);
    operation.policy = policy.clone();
    operation.phase = Phase::PendingApproval;
}

/// All receivers have staged their shares, perhaps after the operation was given up.
fn epoch_decided(operation: &mut Operation, staged: &Staged, receipts: &[NodeReceipt]) {
    operation.staged = Some(Box::new(staged.clone()));
    operation.staged_receipts = receipts.to_vec();
    operation.failure = None;
    let unacked = operation.plan().map(|plan| plan.receivers).unwrap_or_default();
    operation.phase = Phase::CommittingEpoch { attempt: 1, unacked };
}

/// The first attempt at a signature may begin before it is recorded, so from here on its result counts.
fn execution_requested(operation: &mut Operation) {
    operation.phase = Phase::IssuingReceipt;
    if operation.intent.operation_type() == OperationType::Sign {
        operation.attempt = 1;
    }
}

fn begin_attempt(operation: &mut Operation, attempt: u32) {
    operation.attempt = attempt;
    operation.phase = Phase::Executing { attempt };
}

/// Some receivers have discarded the operation. The first time, this is the end of the change of the key.
fn discard_acked(operation: &mut Operation, by: &BTreeSet<ParticipantIndex>) {
    if matches!(operation.phase, Phase::Discarding) {
        let undiscarded = operation.plan().map(|plan| plan.receivers).unwrap_or_default();
        operation.phase = Phase::DiscardingRest { round: 1, undiscarded };
    }
    remove_unconfirmed(&mut operation.phase, by);
}

/// The operation does without these nodes.
fn nodes_given_up(operation: &mut Operation, lost: &BTreeSet<ParticipantIndex>) {
    operation.given_up.extend(lost);
    remove_unconfirmed(&mut operation.phase, lost);
}

/// Removes the nodes from those that the phase waits for.
fn remove_unconfirmed(phase: &mut Phase, nodes: &BTreeSet<ParticipantIndex>) {
    if let Phase::CommittingEpoch { attempt: count, unacked: waiting }
    | Phase::DiscardingRest { round: count, undiscarded: waiting } = phase
    {
        *count = count.saturating_add(1);
        waiting.retain(|node| !nodes.contains(node));
    }
}
