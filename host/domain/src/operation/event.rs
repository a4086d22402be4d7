//! Events, in their stored form. The golden files in `host/domain/golden` pin it.

use super::effect::{Failure, SignatureResult};
use crate::admission::Admission;
use crate::approval::{Approval, LapsedApproval, Rejection};
use crate::binding::ClientBinding;
use crate::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::Intent;
use crate::key::Staged;
use crate::policy;
use crate::receipt::{AttemptReceipt, NodeReceipt};
use crate::roster::ParticipantIndex;
use crate::step::EffectId;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The scope of a signing operation's publication.
pub const SIGNATURE_SCOPE: &str = "signature";

/// A change of an operation, with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time, by the gateway's clock.
    pub at_ms: EpochMs,
    /// The change.
    pub change: Change,
    /// The requester, on the first event that its request caused. `None` on other events.
    #[serde(rename = "asked_by", skip_serializing_if = "Option::is_none", default)]
    pub requested_by: Option<Requester>,
    /// The effect whose outcome caused this event and perhaps the ones after it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub settles: Option<SettledEffect>,
}

/// The client that sent a request, and the unknown members of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The authenticated client; in bypass mode, the client that the request names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<ClientBinding>,
    /// Members of the body that the interface does not have.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unknown_fields: Vec<String>,
}

/// The name and the id of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySlot {
    /// The caller's name for the key, or the development key's.
    pub key_ref: KeyRef,
    /// The key's permanent id.
    pub key_id: KeyId,
}

/// The content of an operation's first event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// The operation's permanent id.
    pub operation_id: OperationId,
    /// The tenant that owns the operation.
    pub tenant: Tenant,
    /// The client that submitted it.
    pub submitter: ClientBinding,
    /// The requested work.
    pub intent: Intent,
    /// Hash of the canonical intent.
    pub intent_hash: Hex32,
    /// The key that the operation signs with, creates or changes.
    pub key: KeySlot,
    /// The key that a rotation creates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<KeySlot>,
    /// Digest of the request body, to detect a replay with another body.
    pub body_digest: Hex32,
    /// Members of the body that the interface does not have.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unknown_fields: Vec<String>,
    /// The evaluation that allowed the submission.
    pub policy: policy::Outcome,
}

/// A change of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Change {
    /// The operation was created.
    Submitted(Box<Submission>),
    /// The operation waits for approvals.
    ApprovalRequested {
        /// The number of approvals required.
        required: u32,
    },
    /// An approval was received and counts.
    ApprovalRecorded {
        /// The approval.
        approval: Approval,
        /// The evaluation over all approvals so far.
        policy: policy::Outcome,
    },
    /// An approver rejected the operation, or aborted the change of a key. With enough of them it has ended, or does without the lost nodes.
    RejectionRecorded {
        /// The rejection.
        rejection: Rejection,
        /// The evaluation over the approvals so far and one of this subject. `None` for a subject that had approved.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        policy: Option<policy::Outcome>,
    },
    /// Approvals that counted no longer do, since their signatures no longer verify: a key was revoked, or an approval became too old. The
    /// operation waits for approvals again.
    ApprovalsLapsed {
        /// The approvals.
        lapsed: Vec<LapsedApproval>,
        /// The evaluation over the approvals that still count.
        policy: policy::Outcome,
    },
    /// Development only: the deployment creates this key without waiting for approvals, because an approved operation signs
    /// with it (`host/docs/interface.md`, section *Keys*).
    ApprovalsWaived {
        /// The evaluation over the approvals so far, with none required by the deployment.
        policy: policy::Outcome,
    },
    /// An approval arrived after the quorum; it changes nothing.
    LateApprovalRecorded {
        /// The approval.
        approval: Approval,
    },
    /// The quorum is reached.
    QuorumReached,
    /// The policy allows the admission at a later time only, by its obligation `admit_not_before`. The quorum stays reached.
    AdmissionPostponed {
        /// That time.
        until_ms: EpochMs,
        /// The evaluation at the admission. `None` if it was the last recorded one, with which the quorum was reached.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        policy: Option<policy::Outcome>,
    },
    /// The time is reached, and the policy is evaluated again.
    AdmissionResumed,
    /// The policy allowed the operation over all approvals, and the authority signed the decision.
    DecisionSigned {
        /// The evaluation.
        policy: policy::Outcome,
        /// The signed decision.
        admission: Box<Admission>,
    },
    /// Enough nodes verified and stored the decision.
    AdmissionApplied {
        /// The nodes' signed receipts.
        receipts: Vec<NodeReceipt>,
    },
    /// A caller, or the gateway for a development key, requested execution.
    ExecutionRequested {
        /// The time of the request by the caller's clock, unverified; `None` when it was not given.
        requested_at_ms: Option<i64>,
    },
    /// Enough nodes issued the policy receipt.
    ReceiptMaterialized {
        /// The nodes' signed receipts.
        receipts: Vec<NodeReceipt>,
        /// The contract's `policy_receipt_id`.
        policy_receipt_id: String,
    },
    /// The ceremony begins; from here on nodes may hold state of it.
    CeremonyStarted {
        /// The attempt, from 1.
        attempt: u32,
    },
    /// The secrets of an attempt are lost; the next attempt starts over.
    AttemptLost {
        /// The attempt that was lost.
        attempt: u32,
        /// The reason, for people.
        reason: String,
        /// Receipts of nodes that they will not complete the attempt. Without one, a node that completed it begins no other.
        /// Empty in events of earlier releases.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        receipts: Vec<AttemptReceipt>,
    },
    /// The point of no return: every receiver holds its new share.
    EpochDecided {
        /// The new generation of shares.
        staged: Box<Staged>,
        /// The signed receipts of all holders of a new share.
        receipts: Vec<NodeReceipt>,
    },
    /// These nodes activated the new generation.
    EpochAcked {
        /// The nodes' signed receipts.
        receipts: Vec<NodeReceipt>,
    },
    /// The signature is made, or the new shares are active.
    Executed {
        /// The contract's `result_ref`.
        result_ref: Hex32,
        /// The signature, when one was made.
        signature: Option<Box<SignatureResult>>,
        /// The signers' receipts. Empty for new shares, whose receipts are in `EpochDecided` and `EpochAcked`.
        receipts: Vec<NodeReceipt>,
    },
    /// A caller, or the automatic mode, requested publication.
    PublicationRequested {
        /// The scope of the publication.
        scope: String,
        /// The time of the request by the caller's clock, unverified; `None` in automatic mode.
        requested_at_ms: Option<i64>,
    },
    /// The nodes opened the publication gate.
    Published {
        /// The nodes' signed receipts.
        receipts: Vec<NodeReceipt>,
        /// The contract's `publication_receipt`.
        publication_receipt: String,
    },
    /// The operation cannot continue. The nodes must first discard what they hold for it: staged shares, or the admission.
    Aborted {
        /// The reason.
        failure: Failure,
    },
    /// Receivers of new shares discarded the operation. With the first of them it has failed, and the key is free.
    DiscardAcked {
        /// The nodes' signed receipts.
        receipts: Vec<NodeReceipt>,
    },
    /// Enough approvers declared these receivers lost. The operation does without them.
    NodesGivenUp {
        /// The receivers that are lost.
        lost: BTreeSet<ParticipantIndex>,
        /// The reason, for people.
        reason: String,
    },
    /// The operation failed. Where nodes held staged shares or an admission to sign, so many have discarded them that the
    /// operation can no longer succeed; events of earlier releases may lack the receipts of a signing operation.
    Failed {
        /// The reason.
        failure: Failure,
        /// The evaluation that denied it, when the policy did.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        policy: Option<policy::Outcome>,
        /// The discard receipts, when nodes held staged shares or an admission to sign.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        receipts: Vec<NodeReceipt>,
    },
    /// The idempotency key was used again with another body.
    ReplayNoted {
        /// Digest of that body.
        body_digest: Hex32,
    },
    /// A node recovery was requested and answered.
    RecoveryRecorded(Recovery),
    /// The published result moved forward on an external rail.
    ExternallyExported(ExternalExport),
}

impl Change {
    /// The `type` of its stored form.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "submitted",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::ApprovalRecorded { .. } => "approval_recorded",
            Self::RejectionRecorded { .. } => "rejection_recorded",
            Self::ApprovalsLapsed { .. } => "approvals_lapsed",
            Self::ApprovalsWaived { .. } => "approvals_waived",
            Self::LateApprovalRecorded { .. } => "late_approval_recorded",
            Self::QuorumReached => "quorum_reached",
            Self::AdmissionPostponed { .. } => "admission_postponed",
            Self::AdmissionResumed => "admission_resumed",
            Self::DecisionSigned { .. } => "decision_signed",
            Self::AdmissionApplied { .. } => "admission_applied",
            Self::ExecutionRequested { .. } => "execution_requested",
            Self::ReceiptMaterialized { .. } => "receipt_materialized",
            Self::CeremonyStarted { .. } => "ceremony_started",
            Self::AttemptLost { .. } => "attempt_lost",
            Self::EpochDecided { .. } => "epoch_decided",
            Self::EpochAcked { .. } => "epoch_acked",
            Self::Executed { .. } => "executed",
            Self::PublicationRequested { .. } => "publication_requested",
            Self::Published { .. } => "published",
            Self::Aborted { .. } => "aborted",
            Self::DiscardAcked { .. } => "discard_acked",
            Self::NodesGivenUp { .. } => "nodes_given_up",
            Self::Failed { .. } => "failed",
            Self::ReplayNoted { .. } => "replay_noted",
            Self::RecoveryRecorded(_) => "recovery_recorded",
            Self::ExternallyExported(_) => "externally_exported",
        }
    }
}

/// The recovery of an effect.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RecoveryView))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The effect's id in the request.
    pub effect_id: String,
    /// The outcome.
    pub outcome: RecoveryOutcome,
    /// The result root in the request. For a completed effect it is the effect's own.
    pub result_root: Hex32,
    /// Time of the first request for this effect and outcome, epoch milliseconds.
    pub recovered_at_ms: EpochMs,
    /// The nodes that take part in the operation.
    pub participants: Vec<ParticipantIndex>,
}

/// A recorded state on an external rail.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExternalExportView))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalExport {
    /// The rail's name.
    pub rail: String,
    /// The caller's reference for this step.
    pub export_ref: Hex32,
    /// The state.
    pub state: ExportState,
    /// The rail's id for the export.
    pub external_id: String,
    /// The time by the caller's clock, milliseconds since 1970; not verified.
    pub exported_at_ms: i64,
}

crate::wire_words! {
    /// The state of an export.
    // It only goes forward.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExternalExportState))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[expect(missing_docs, reason = "the variants are the contract's words")]
    pub enum ExportState {
        Submitted = "Submitted",
        Accepted = "Accepted",
        Settled = "Settled",
    }
}

/// The outcomes of a recovery.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RecoveryOutcomeName))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryOutcome {
    /// The effect completed with this result.
    Complete,
    /// No effect with this id has completed.
    UnknownEffect,
}

/// An effect that has completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledEffect {
    /// The effect's id.
    pub id: EffectId,
    /// Digest of its outcome.
    pub result_root: Hex32,
}
