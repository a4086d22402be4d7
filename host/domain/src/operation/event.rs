//! What happened: the stored format. Golden files in `host/domain/golden` pin it.

use super::effect::{Failure, SignatureResult};
use crate::admission::Admission;
use crate::approval::Approval;
use crate::binding::ClientBinding;
use crate::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::Intent;
use crate::key::Staged;
use crate::policy;
use crate::receipt::NodeReceipt;
use crate::roster::ParticipantIndex;
use crate::step::EffectId;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The gateway's clock.
    pub at_ms: EpochMs,
    /// What.
    pub change: Change,
    /// The request behind it, where that says who made it.
    #[serde(rename = "asked_by", skip_serializing_if = "Option::is_none", default)]
    pub requested_by: Option<Requester>,
    /// The effect that this event brought to its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub settles: Option<SettledEffect>,
}

/// Who made a request that advanced an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The caller, as authenticated or as it said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<ClientBinding>,
    /// Members of the body that the contract does not have.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unknown_fields: Vec<String>,
}

/// The key an operation is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySlot {
    /// The caller's name for it, or the development key's.
    pub key_ref: KeyRef,
    /// Its id for ever.
    pub key_id: KeyId,
}

/// How an operation begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Its name for ever.
    pub operation_id: OperationId,
    /// Whose.
    pub tenant: Tenant,
    /// Who submitted it.
    pub submitter: ClientBinding,
    /// What is to be done.
    pub intent: Intent,
    /// Hash of the canonical intent.
    pub intent_hash: Hex32,
    /// The key it is about.
    pub key: KeySlot,
    /// The key that a rotation makes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<KeySlot>,
    /// Digest of the request body, to tell a replay with another body.
    pub body_digest: Hex32,
    /// Members of the body that the contract does not have.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unknown_fields: Vec<String>,
    /// The evaluation that let it in.
    pub policy: policy::Outcome,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Change {
    /// The operation exists.
    Submitted(Box<Submission>),
    /// Approvals are awaited.
    ApprovalRequested {
        /// How many.
        required: u32,
    },
    /// An approval counts.
    ApprovalRecorded {
        /// The vote.
        approval: Approval,
        /// The evaluation over all approvals so far.
        policy: policy::Outcome,
    },
    /// The deployment makes this key without waiting for approvals, because something is to be signed with it
    /// (decisions.md 5, development only).
    ApprovalsWaived {
        /// The evaluation over the approvals there are, none being required.
        policy: policy::Outcome,
    },
    /// An approval came after the quorum; it changes nothing.
    LateApprovalRecorded {
        /// The vote.
        approval: Approval,
    },
    /// Enough approvals count.
    QuorumReached,
    /// The policy allowed it over all approvals and the authority signed.
    DecisionSigned {
        /// The evaluation.
        policy: policy::Outcome,
        /// The signed decision.
        admission: Box<Admission>,
    },
    /// Enough nodes verified and keep the decision.
    AdmissionApplied {
        /// Their word.
        receipts: Vec<NodeReceipt>,
    },
    /// Somebody asked for execution.
    ExecutionRequested {
        /// The caller's clock: a claim.
        requested_at_ms: Option<i64>,
    },
    /// Enough nodes fixed the policy receipt.
    ReceiptMaterialized {
        /// Their word.
        receipts: Vec<NodeReceipt>,
        /// The contract's `policy_receipt_id`.
        policy_receipt_id: String,
    },
    /// The ceremony begins; from here on nodes may hold something of it.
    CeremonyStarted {
        /// From 1.
        attempt: u32,
    },
    /// An attempt's secrets are gone; the next begins afresh.
    AttemptLost {
        /// Which.
        attempt: u32,
        /// Why.
        reason: String,
    },
    /// The point of no return: every planned node holds its new share.
    EpochDecided {
        /// The new generation.
        staged: Box<Staged>,
        /// The word of everybody who holds a share of it.
        receipts: Vec<NodeReceipt>,
    },
    /// These nodes put the new generation in force.
    EpochAcked {
        /// Their word.
        receipts: Vec<NodeReceipt>,
    },
    /// The work is done.
    Executed {
        /// The contract's `result_ref`.
        result_ref: Hex32,
        /// The signature, when one was made.
        signature: Option<Box<SignatureResult>>,
        /// The signers' word. None for new shares: that of their holders is with the epoch's decision and promotion.
        receipts: Vec<NodeReceipt>,
    },
    /// Somebody, or the automatic mode, asked for publication.
    PublicationRequested {
        /// In which scope.
        scope: String,
        /// The caller's clock: a claim; none in automatic mode.
        requested_at_ms: Option<i64>,
    },
    /// The nodes opened the publication gate.
    Published {
        /// Their word.
        receipts: Vec<NodeReceipt>,
        /// The contract's `publication_receipt`.
        publication_receipt: String,
    },
    /// It cannot go on. The nodes must first discard what they hold of it: staged shares, or the admission to sign.
    Aborted {
        /// Why.
        failure: Failure,
    },
    /// It failed, and nothing of it is left anywhere.
    Failed {
        /// Why.
        failure: Failure,
        /// The evaluation behind it, when the policy refused.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        policy: Option<policy::Outcome>,
        /// The discard receipts, where nodes held staged shares or an admission to sign.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        receipts: Vec<NodeReceipt>,
    },
    /// The same idempotency key came with another body.
    ReplayNoted {
        /// Digest of that body.
        body_digest: Hex32,
    },
    /// A node recovery was asked for and answered.
    RecoveryRecorded(Recovery),
    /// An external rail took the published result a step further.
    ExternallyExported(ExternalExport),
}

/// The answer to a node recovery (decisions.md 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The effect as the caller named it.
    pub effect_id: String,
    /// What came of it.
    pub outcome: RecoveryOutcome,
    /// The result the caller gave, which is the effect's when it is known.
    pub result_root: Hex32,
    /// When it was first answered.
    pub recovered_at_ms: EpochMs,
    /// The nodes of the operation.
    pub participants: Vec<ParticipantIndex>,
}

/// Where a published result is on an external rail (decisions.md 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalExport {
    /// Which rail.
    pub rail: String,
    /// The caller's reference of this step.
    pub export_ref: Hex32,
    /// How far it is.
    pub state: ExportState,
    /// The rail's name for it.
    pub external_id: String,
    /// The caller's clock: a claim.
    pub exported_at_ms: i64,
}

/// How far an export is; it only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract's own words")]
pub enum ExportState {
    Submitted,
    Accepted,
    Settled,
}

impl ExportState {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "Submitted",
            Self::Accepted => "Accepted",
            Self::Settled => "Settled",
        }
    }
}

/// What a recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryOutcome {
    /// The effect was complete with this result.
    Complete,
    /// No effect of this operation has this name.
    UnknownEffect,
}

/// An effect that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledEffect {
    /// Which.
    pub id: EffectId,
    /// Digest of what came of it.
    pub result_root: Hex32,
}
