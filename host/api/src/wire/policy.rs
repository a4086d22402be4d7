//! Shapes of the policy preview.

use super::operations::{ApproveOperationRequest, SignOperationRequest};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{Decision, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/policy/preview`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyPreviewRequest {
    /// The operation to evaluate.
    pub intent: SignOperationRequest,
    /// Approvals of it, oldest first.
    #[serde(default)]
    pub approvals: Vec<ApproveOperationRequest>,
}

/// The result of an evaluation.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyPreview {
    /// `ALLOW` or `DENY`.
    #[schema(value_type = PolicyDecision)]
    pub decision: Decision,
    /// Id of the bundle that was evaluated.
    pub bundle_id: String,
    /// SHA-256 of the bundle's canonical manifest.
    #[schema(value_type = String)]
    pub bundle_hash: Hex32,
    /// The reasons for the decision, as `code: operands`.
    pub reasons: Vec<String>,
    /// Obligations that the policy attaches to the decision, as `code: operands`.
    pub obligations: Vec<String>,
    /// The facts that the policy read, as `name=value`, in the order of reading.
    pub facts: Vec<String>,
}

/// The decision.
#[derive(ToSchema)]
#[schema(rename_all = "UPPERCASE")]
pub enum PolicyDecision {
    /// The operation may proceed.
    Allow,
    /// The operation may not proceed.
    Deny,
}

impl From<&Outcome> for PolicyPreview {
    fn from(outcome: &Outcome) -> Self {
        Self {
            decision: outcome.decision,
            bundle_id: outcome.bundle_id.clone(),
            bundle_hash: outcome.bundle_hash,
            reasons: outcome.reason_texts(),
            obligations: outcome.obligations.iter().map(ToString::to_string).collect(),
            facts: outcome.facts.iter().map(ToString::to_string).collect(),
        }
    }
}
