//! The phases, and for each the public state and the actions that a caller may take.

use crate::intent::PublicationMode;
use crate::roster::ParticipantIndex;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The phase of an operation. In some phases the operation rests, until a caller acts or for good. In the others it owes a
/// step, which the engine performs (see [`super::next`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Phase {
    /// Between the first two events, which are written together.
    Submitted,
    /// Rests until the quorum is reached, or the approvals are overdue.
    PendingApproval,
    /// Owes the authority's signed decision.
    Deciding,
    /// Has its quorum, and rests until the time before which the policy does not allow the admission.
    Postponed {
        /// The time of the event that postponed it.
        since_ms: EpochMs,
        /// When the admission is decided.
        until_ms: EpochMs,
    },
    /// Owes the nodes' receipts for the decision.
    #[serde(rename = "applying")]
    Admitting,
    /// Rests until execution is requested.
    Admitted,
    /// Owes the policy receipt.
    #[serde(rename = "materializing")]
    IssuingReceipt,
    /// Owes the record that the ceremony begins.
    ReceiptMaterialized,
    /// Owes the ceremony: a signature, or new shares.
    #[serde(rename = "preparing")]
    Executing {
        /// The attempt, from 1. A lost attempt is never resumed.
        attempt: u32,
    },
    /// Past the point of no return: owes the promotion of the new shares on the nodes that have not confirmed it.
    #[serde(rename = "committing")]
    CommittingEpoch {
        /// From 1; grows whenever `unacked` shrinks, so that an effect id never names two different actions.
        attempt: u32,
        /// The nodes that have not confirmed the promotion.
        unacked: BTreeSet<ParticipantIndex>,
    },
    /// Rests until publication is requested. In automatic mode the request is written in the same commit.
    Executed,
    /// Owes publication.
    Publishing,
    /// The result is published. Final.
    Published,
    /// Has given up, but the result may exist: owes the discard receipts that exclude it, or the result.
    Discarding,
    /// No new shares can come to be in force, since a receiver has discarded the operation: the key is free. Owes the discard receipts
    /// of the other receivers.
    DiscardingRest {
        /// From 2; grows whenever `undiscarded` shrinks, so that an effect id never names two different actions.
        round: u32,
        /// The receivers that have not discarded what they hold.
        undiscarded: BTreeSet<ParticipantIndex>,
    },
    /// The operation has failed. Final.
    Failed,
}

crate::wire_words! {
    /// The states of an operation.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OperationState))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[expect(missing_docs, reason = "the variants are the contract's words")]
    pub enum State {
        Submitted = "submitted",
        PendingApproval = "pending_approval",
        Admitted = "admitted",
        ReceiptMaterialized = "receipt_materialized",
        Executing = "executing",
        Executed = "executed",
        Published = "published",
        Failed = "failed",
    }
}

impl State {
    /// The state after a stored change of this `type`; `None` for a change that keeps the state. For readers of redacted exports, which
    /// cannot fold the events.
    #[must_use]
    pub fn after(change_type: &str) -> Option<Self> {
        match change_type {
            "submitted" => Some(Self::Submitted),
            "approval_requested" => Some(Self::PendingApproval),
            "admission_applied" => Some(Self::Admitted),
            "receipt_materialized" => Some(Self::ReceiptMaterialized),
            "ceremony_started" | "aborted" => Some(Self::Executing),
            "executed" => Some(Self::Executed),
            "published" => Some(Self::Published),
            "discard_acked" | "failed" => Some(Self::Failed),
            _ => None,
        }
    }

    /// The contract's `runtime.phase`.
    #[must_use]
    pub const fn runtime_phase(self) -> &'static str {
        match self {
            Self::Submitted => "Submitted",
            Self::PendingApproval => "PendingApproval",
            Self::Admitted => "Admitted",
            Self::ReceiptMaterialized => "ReceiptMaterialized",
            Self::Executing => "Executing",
            Self::Executed => "Executed",
            Self::Published => "Published",
            Self::Failed => "Failed",
        }
    }
}

crate::wire_words! {
    /// The endpoints that advance an operation, by the last segment of their paths.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActionName))]
    #[expect(missing_docs, reason = "the variants are the last segments of the paths")]
    pub enum NextAction {
        Approve = "approve",
        Execute = "execute",
        Publish = "publish",
        NodeRecovery = "node-recovery",
        ExternalExport = "external-export",
    }
}

/// A step that the gateway completes by itself.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = StepInProgress))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnStep {
    /// The authority's decision, and the nodes' receipts for it.
    Admission,
    /// The policy receipt and the ceremony.
    Execution,
    /// The nodes' publication receipts.
    Publication,
    /// The nodes' discard receipts.
    Discard,
}

impl Phase {
    /// The step that the gateway completes by itself in this phase. `None` if it rests until a caller acts, or for good.
    #[must_use]
    pub const fn in_progress(&self) -> Option<OwnStep> {
        match self {
            Self::Deciding | Self::Admitting => Some(OwnStep::Admission),
            Self::IssuingReceipt
            | Self::ReceiptMaterialized
            | Self::Executing { .. }
            | Self::CommittingEpoch { .. } => Some(OwnStep::Execution),
            Self::Publishing => Some(OwnStep::Publication),
            Self::Discarding | Self::DiscardingRest { .. } => Some(OwnStep::Discard),
            Self::Submitted
            | Self::PendingApproval
            | Self::Postponed { .. }
            | Self::Admitted
            | Self::Executed
            | Self::Published
            | Self::Failed => None,
        }
    }

    /// The public state.
    #[must_use]
    pub const fn state(&self) -> State {
        match self {
            Self::Submitted => State::Submitted,
            Self::PendingApproval | Self::Deciding | Self::Postponed { .. } | Self::Admitting => {
                State::PendingApproval
            }
            Self::Admitted | Self::IssuingReceipt => State::Admitted,
            Self::ReceiptMaterialized => State::ReceiptMaterialized,
            Self::Executing { .. } | Self::CommittingEpoch { .. } | Self::Discarding => State::Executing,
            Self::Executed | Self::Publishing => State::Executed,
            Self::Published => State::Published,
            Self::DiscardingRest { .. } | Self::Failed => State::Failed,
        }
    }

    /// The endpoints that advance an operation in this phase.
    #[must_use]
    pub const fn next_actions(&self, mode: PublicationMode) -> &'static [NextAction] {
        match (self, mode) {
            (Self::Submitted | Self::PendingApproval, _) => &[NextAction::Approve],
            // The quorum is reached. Either request retries the decision, which may have waited for a service or a key.
            (Self::Deciding | Self::Admitting, _) => &[NextAction::Approve, NextAction::Execute],
            // The admission is decided without a request, and execution is next.
            (Self::Postponed { .. } | Self::Admitted | Self::IssuingReceipt, _) => &[NextAction::Execute],
            (Self::ReceiptMaterialized | Self::Executing { .. } | Self::CommittingEpoch { .. }, _) => {
                &[NextAction::Execute, NextAction::NodeRecovery]
            }
            // The gateway discards by itself; a request makes it try at once.
            (Self::Discarding, _) => &[NextAction::Execute],
            (Self::Executed | Self::Publishing, PublicationMode::Manual) => &[NextAction::Publish],
            (Self::Executed | Self::Publishing, PublicationMode::Automatic)
            | (Self::Published | Self::DiscardingRest { .. } | Self::Failed, _) => &[],
        }
    }
}
