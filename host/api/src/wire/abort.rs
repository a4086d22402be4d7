//! Ending a change of a key for which a node is needed that does not answer.

use super::approvals::ApprovalSignature;
use super::{ClientBinding, RequestShape, not_empty};
use crate::state::Options;
use gateway_domain::roster::{PARTICIPANT_INDEX_MAX, PARTICIPANTS_MAX, ParticipantIndex};
use gateway_engine::Reject;
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, Object, SchemaType, Type};

/// Body of `POST .../abort`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodyAbortRequest {
    /// The approver.
    #[schema(min_length = 1)]
    pub subject_id: String,
    /// The roles in which the approver aborts.
    pub roles: Vec<String>,
    /// The reason.
    #[schema(min_length = 1)]
    pub reason: String,
    /// The receivers of new shares that are lost.
    #[schema(schema_with = lost)]
    pub lost_participants: Option<Vec<u16>>,
    /// The approver's clock, epoch milliseconds; not verified.
    pub aborted_at_ms: i64,
    /// The approver's signature over the operation's `approval_statement.abort_template`.
    pub signature: Option<ApprovalSignature>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

const LOST: &str =
    "The receivers of new shares that are lost. Empty or absent before all have stored theirs.";

/// The schema of the lost participants.
fn lost() -> Array {
    let index =
        Object::builder().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(PARTICIPANT_INDEX_MAX));
    let array = Array::builder().schema_type(SchemaType::from_iter([Type::Array, Type::Null]));
    array.items(index).max_items(Some(PARTICIPANTS_MAX)).description(Some(LOST)).build()
}

impl RequestShape for CustodyAbortRequest {
    type Checked = Reject;

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }

    fn check(&self, _: &Options) -> Result<Reject, Fault> {
        let lost = self.lost_participants.as_deref().unwrap_or_default();
        if lost.len() > PARTICIPANTS_MAX || lost.iter().any(|index| *index > PARTICIPANT_INDEX_MAX) {
            let expected =
                format!("must have at most {PARTICIPANTS_MAX} indices up to {PARTICIPANT_INDEX_MAX}");
            return Err(Fault::at("/lost_participants", expected));
        }
        let lost = lost.iter().copied().map(ParticipantIndex).collect();
        let signature = self.signature.as_ref().map(|signature| signature.parse("/signature"));
        Ok(Reject {
            subject_id: not_empty("/subject_id", &self.subject_id)?,
            roles: self.roles.clone(),
            reason: not_empty("/reason", &self.reason)?,
            lost: Some(lost),
            claimed_at_ms: self.aborted_at_ms,
            signature: signature.transpose()?.map(Box::new),
            requester: None,
            request_id: None,
        })
    }
}
