//! Shapes of the policy preview.

use super::operations::{ApproveOperationRequest, SignOperationRequest};
use super::{ClientBinding, RequestShape};
use crate::state::Options;
use gateway_domain::approval::Approval;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Decision, Outcome};
use gateway_domain::time::EpochMs;
use gateway_engine::Approve;
use gateway_service::strict::Fault;
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

impl RequestShape for PolicyPreviewRequest {
    type Checked = (Intent, Vec<Approval>);

    fn check(&self, options: &Options) -> Result<Self::Checked, Fault> {
        let intent = self.intent.check(options).map_err(|fault| fault.within("/intent"))?;
        self.intent.client.check("/intent/client")?;
        let approvals = self.approvals.iter().enumerate().map(|(index, approval)| {
            let pointer = format!("/approvals/{index}");
            let vote = approval.check(options).map_err(|fault| fault.within(&pointer))?;
            approval.client.as_ref().map_or(Ok(()), |client| client.check(&format!("{pointer}/client")))?;
            Ok(preview_approval(vote))
        });
        Ok((intent, approvals.collect::<Result<_, Fault>>()?))
    }

    /// The client is the intent's.
    fn client(&self) -> Option<&ClientBinding> {
        None
    }
}

/// The approval as it would be recorded, except that its time is the claimed one. A signature is not verified: it would be
/// over the id of an operation, which does not exist.
fn preview_approval(vote: Approve) -> Approval {
    Approval {
        approved_at_ms: EpochMs(u64::try_from(vote.claimed_at_ms).unwrap_or_default()),
        subject_id: vote.subject_id,
        roles: vote.roles,
        registered: None,
        claimed_at_ms: vote.claimed_at_ms,
        signature: None,
    }
}

/// The result of an evaluation.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyPreview {
    /// `ALLOW` or `DENY`.
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
