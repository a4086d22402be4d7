//! Ending an operation before it is admitted.

use super::approvals::ApprovalSignature;
use super::{ClientBinding, RequestShape, not_empty};
use crate::state::Options;
use gateway_engine::{Cancel, Reject};
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST .../reject`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RejectOperationRequest {
    /// The approver.
    #[schema(min_length = 1)]
    pub subject_id: String,
    /// The roles in which the approver rejects.
    pub roles: Vec<String>,
    /// The reason.
    #[schema(min_length = 1)]
    pub reason: String,
    /// The approver's clock, epoch milliseconds; not verified.
    pub rejected_at_ms: i64,
    /// The approver's signature over the operation's `approval_statement.rejection_template`.
    pub signature: Option<ApprovalSignature>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for RejectOperationRequest {
    type Checked = Reject;

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }

    fn check(&self, _: &Options) -> Result<Reject, Fault> {
        let signature = self.signature.as_ref().map(|signature| signature.parse("/signature"));
        Ok(Reject {
            subject_id: not_empty("/subject_id", &self.subject_id)?,
            roles: self.roles.clone(),
            reason: not_empty("/reason", &self.reason)?,
            lost: None,
            claimed_at_ms: self.rejected_at_ms,
            signature: signature.transpose()?.map(Box::new),
            requester: None,
            request_id: None,
        })
    }
}

/// Body of `POST .../cancel`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CancelOperationRequest {
    /// The reason.
    #[schema(min_length = 1)]
    pub reason: String,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for CancelOperationRequest {
    type Checked = Cancel;

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }

    fn check(&self, _: &Options) -> Result<Cancel, Fault> {
        Ok(Cancel { reason: not_empty("/reason", &self.reason)?, requester: None })
    }
}
