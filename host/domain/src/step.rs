//! The steps of an operation that have an effect outside the gateway's store, and their ids.

use crate::ids::OperationId;
use serde::{Deserialize, Serialize};
use std::fmt;

crate::wire_words! {
    /// The steps of an operation that have effects.
    // In the order in which they happen, except `Discard`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub enum EffectStep {
        /// Evaluate the policy over the approvals, then obtain the authority's signed decision.
        Decision = "decision",
        /// Send the decision to the nodes.
        Admission = "admission",
        /// Have the nodes issue the policy receipt.
        PolicyReceipt = "policy-receipt",
        /// Sign, or stage new shares.
        Execute = "execute",
        /// Activate the staged shares.
        CommitEpoch = "commit-epoch",
        /// Open the publication gate, and erase retired shares.
        Publish = "publish",
        /// Discard the operation and the shares staged for it.
        Discard = "discard",
    }
}

/// The id of an effect. `effect_id` in requests is its members in this order, joined by dots.
// Permanent: a node answers a repeat from its ledger.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectId {
    /// The operation's id.
    pub operation: OperationId,
    /// The step.
    pub step: EffectStep,
    /// The attempt, from 1.
    // Another attempt is another effect.
    pub attempt: u32,
}

impl fmt::Display for EffectId {
    /// `<operation id>.<step>.<attempt>`, the contract's `effect_id`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.operation, self.step.as_str(), self.attempt)
    }
}
