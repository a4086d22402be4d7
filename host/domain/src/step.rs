//! The steps of an operation that have an effect outside the gateway's store.

use crate::ids::OperationId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A step of an operation, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectStep {
    /// Evaluate the policy over the approvals, then obtain the authority's signed decision.
    Decision,
    /// Give the decision to the nodes.
    Admission,
    /// Have the nodes issue the policy receipt.
    PolicyReceipt,
    /// Sign, or stage new shares.
    Execute,
    /// Promote the staged shares.
    CommitEpoch,
    /// Open the publication gate; erase what was retired.
    Publish,
    /// Discard the operation, and what was staged for it.
    Discard,
}

impl EffectStep {
    /// As it stands in an effect id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Admission => "admission",
            Self::PolicyReceipt => "policy-receipt",
            Self::Execute => "execute",
            Self::CommitEpoch => "commit-epoch",
            Self::Publish => "publish",
            Self::Discard => "discard",
        }
    }
}

/// Names one action for ever; the far end answers a repeat from its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectId {
    /// Whose.
    pub operation: OperationId,
    /// Which step.
    pub step: EffectStep,
    /// From 1; another attempt is another action.
    pub attempt: u32,
}

impl fmt::Display for EffectId {
    /// `<operation id>.<step>.<attempt>`, the contract's `effect_id`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.operation, self.step.as_str(), self.attempt)
    }
}
