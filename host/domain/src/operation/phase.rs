//! The phase table: what is shown, what is owed, what a caller may do next.

use crate::intent::PublicationMode;
use crate::roster::ParticipantIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where an operation is. Each phase either rests (somebody must act) or owes a step ([`super::next`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Phase {
    /// The instant between the first two events.
    Submitted,
    /// Rests: approvals are awaited.
    PendingApproval,
    /// Owes the signed decision.
    Deciding,
    /// Owes the decision's application on the nodes.
    #[serde(rename = "applying")]
    Admitting,
    /// Rests: execution is awaited.
    Admitted,
    /// Owes the policy receipt.
    #[serde(rename = "materializing")]
    IssuingReceipt,
    /// Owes the record that the ceremony begins.
    ReceiptMaterialized,
    /// Owes the ceremony.
    #[serde(rename = "preparing")]
    Executing {
        /// 1 for the first; a lost attempt is never resumed.
        attempt: u32,
    },
    /// Past the point of no return: owes the promotion of new shares on the nodes that have not confirmed.
    #[serde(rename = "committing")]
    CommittingEpoch {
        /// Counts the changes of `unacked`, so that an effect id never names two actions.
        attempt: u32,
        /// Who has not confirmed.
        unacked: BTreeSet<ParticipantIndex>,
    },
    /// Rests in manual mode: publication is awaited.
    Executed,
    /// Owes publication.
    Publishing,
    /// Final.
    Published,
    /// Owes the discard receipts of the nodes.
    Discarding,
    /// Final.
    Failed,
}

/// The contract's `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's own words")]
pub enum State {
    Submitted,
    PendingApproval,
    Admitted,
    ReceiptMaterialized,
    Executing,
    Executed,
    Published,
    Failed,
}

impl State {
    /// The state after a stored change of this `type`; none for changes that leave it as it is. `signs` tells signing operations
    /// from those that make shares. For readers of exports that open too little to fold the events.
    #[must_use]
    pub fn after(change_type: &str, signs: bool) -> Option<Self> {
        match change_type {
            "submitted" => Some(Self::Submitted),
            "approval_requested" => Some(Self::PendingApproval),
            "admission_applied" => Some(Self::Admitted),
            "receipt_materialized" => Some(Self::ReceiptMaterialized),
            "ceremony_started" => Some(Self::Executing),
            "executed" => Some(Self::Executed),
            "published" => Some(Self::Published),
            "aborted" if signs => Some(Self::Executing),
            "aborted" | "failed" => Some(Self::Failed),
            _ => None,
        }
    }

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::PendingApproval => "pending_approval",
            Self::Admitted => "admitted",
            Self::ReceiptMaterialized => "receipt_materialized",
            Self::Executing => "executing",
            Self::Executed => "executed",
            Self::Published => "published",
            Self::Failed => "failed",
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

/// An endpoint that advances the operation, by the last segment of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract's own words")]
pub enum NextAction {
    Approve,
    Execute,
    Publish,
    NodeRecovery,
    ExternalExport,
}

impl NextAction {
    /// The last segment of the endpoint's path.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Execute => "execute",
            Self::Publish => "publish",
            Self::NodeRecovery => "node-recovery",
            Self::ExternalExport => "external-export",
        }
    }
}

impl Phase {
    /// What a caller is shown.
    #[must_use]
    pub const fn state(&self) -> State {
        match self {
            Self::Submitted => State::Submitted,
            Self::PendingApproval | Self::Deciding | Self::Admitting => State::PendingApproval,
            Self::Admitted | Self::IssuingReceipt => State::Admitted,
            Self::ReceiptMaterialized => State::ReceiptMaterialized,
            Self::Executing { .. } | Self::CommittingEpoch { .. } => State::Executing,
            Self::Executed | Self::Publishing => State::Executed,
            Self::Published => State::Published,
            Self::Discarding | Self::Failed => State::Failed,
        }
    }

    /// What a caller may do.
    #[must_use]
    pub const fn next_actions(&self, mode: PublicationMode) -> &'static [NextAction] {
        match (self, mode) {
            (Self::Submitted | Self::PendingApproval, _) => &[NextAction::Approve],
            // Enough have approved: what the decision waited for may be there by now, and either asks for it again.
            (Self::Deciding | Self::Admitting, _) => &[NextAction::Approve, NextAction::Execute],
            (Self::Admitted | Self::IssuingReceipt, _) => &[NextAction::Execute],
            (Self::ReceiptMaterialized | Self::Executing { .. } | Self::CommittingEpoch { .. }, _) => {
                &[NextAction::Execute, NextAction::NodeRecovery]
            }
            (Self::Executed | Self::Publishing, PublicationMode::Manual) => &[NextAction::Publish],
            (Self::Executed | Self::Publishing, PublicationMode::Automatic)
            | (Self::Published | Self::Discarding | Self::Failed, _) => &[],
        }
    }
}
