//! The arguments of the calls to a node.

use crate::error::{Code, NodeError, NodeRejection};
use gateway_domain::admission::{AdmissionDecision, PAYLOAD_TYPE};
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{EffectId, SignatureResult, Staged};
use gateway_domain::policy::{Moment, Recorded, Request};
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use gateway_threshold::SignatureProfile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An operation's intent and approvals, with the decision that admits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitRequest {
    /// The id of this call.
    pub effect: EffectId,
    /// The intent.
    pub intent: Intent,
    /// The client that submitted the operation, as the policy saw it.
    pub submitter: ClientBinding,
    /// The approvals that the decision is based on, in the order in which it hashes them.
    pub approvals: Vec<Approval>,
    /// The tenant and its name for the key.
    pub owner: Owner,
    /// What the node needs to repeat the policy evaluation that the decision is based on.
    pub policy: Recorded,
    /// The signed decision.
    pub envelope: Envelope,
}

/// The decision in an envelope, whose signature is not verified; `None` if it has none.
pub(crate) fn unverified_decision(envelope: &Envelope) -> Option<AdmissionDecision> {
    let payload = envelope.payload(PAYLOAD_TYPE).ok()?;
    serde_json::from_slice(&payload).ok()
}

impl AdmitRequest {
    /// The decision in the envelope, whose signature is not verified.
    pub fn unverified_decision(&self) -> Result<AdmissionDecision, NodeError> {
        unverified_decision(&self.envelope).ok_or_else(|| {
            NodeRejection::new(Code::AdmissionRefused, "the envelope has no admission decision").into()
        })
    }

    /// The request that the policy evaluated.
    pub(crate) fn policy_request(&self, intent_hash: Hex32) -> Request<'_> {
        Request {
            moment: Moment::Admission,
            intent_hash,
            tenant: &self.owner.tenant,
            key_ref: &self.owner.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals: &self.approvals,
        }
    }
}

/// The tenant of an operation, and its name for the key. [`gateway_domain::intent::key_id`] of both must be the decision's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Owner {
    /// The tenant.
    pub tenant: Tenant,
    /// The tenant's name for the key.
    pub key_ref: KeyRef,
}

/// The context of every call after the admission: the members of the contract's `CallContext` that a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The id of this call. For a ceremony, `effect.attempt` is the attempt.
    pub effect: EffectId,
    /// The hash of the decision that admitted the operation.
    pub admission_hash: Hex32,
    /// The hash of the transition before this step: see [`Chain`](gateway_domain::receipt::Chain).
    pub previous: Hex32,
    /// What the caller expects to be admitted.
    pub subject: Subject,
}

/// The parts of a decision that a call repeats. The node compares them with the decision that it stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The key.
    pub key_id: KeyId,
    /// Root of the generation of shares that acts.
    pub epoch_root: Hex32,
    /// Hash of the intent.
    pub intent_hash: Hex32,
    /// The 32 bytes that a signature signs.
    pub request_digest: Hex32,
    /// The signature profile of the key.
    pub profile: SignatureProfile,
}

impl Subject {
    /// The subject of an admitted operation on a key of this profile.
    #[must_use]
    pub const fn new(decision: &AdmissionDecision, profile: SignatureProfile) -> Self {
        let AdmissionDecision { key_id, epoch_root, intent_hash, request_digest, .. } = *decision;
        Self { key_id, epoch_root, intent_hash, request_digest, profile }
    }
}

/// A receipt that its own node is shown, with the statement that it signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ShownReceipt {
    /// The statement.
    pub statement: ReceiptStatement,
    /// The receipt.
    pub receipt: NodeReceipt,
}

/// The parameters of a ceremony that makes shares, the same for all its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeremonyStart {
    /// The holders that deal new shares; empty except for a refresh or a reshare.
    pub dealers: BTreeSet<ParticipantIndex>,
    /// The public keys of the admitted generation, encoded, for nodes that do not hold them; empty for a key creation.
    pub package: Vec<u8>,
    /// The receipts of nodes for earlier attempts that they will not complete.
    pub discarded: Vec<AttemptReceipt>,
}

/// What a node needs before it discards an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Discard {
    /// The signed decision on the operation, which may have expired.
    pub decision: Envelope,
    /// The receipts of nodes that they will not complete an attempt, or discarded the operation.
    pub discarded_attempts: Vec<AttemptReceipt>,
}

/// The id of one attempt at a ceremony, the same for all its nodes. A message with another id is rejected.
pub fn ceremony_id(call: &Call, start: &CeremonyStart) -> Result<[u8; 32], CanonicalError> {
    #[derive(Serialize)]
    struct Attempt<'a> {
        admission_hash: Hex32,
        operation_id: OperationId,
        attempt: u32,
        dealers: &'a BTreeSet<ParticipantIndex>,
    }
    let Call { effect, admission_hash, .. } = *call;
    let (operation_id, attempt) = (effect.operation, effect.attempt);
    let attempt = Attempt { admission_hash, operation_id, attempt, dealers: &start.dealers };
    Ok(*canonical::digest("svc/ceremony/v1", &attempt)?.as_bytes())
}

/// The staged generation that a promotion puts in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommitEpoch {
    /// The attempt that staged it.
    pub attempt: u32,
    /// The generation's root.
    pub epoch_root: Hex32,
    /// The signed receipts of all its receivers that they have staged it.
    pub staged: Vec<NodeReceipt>,
}

/// A result to publish, and the attempt that produced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Publication {
    /// The attempt at the ceremony that produced the result.
    pub attempt: u32,
    /// The result.
    pub result: Published,
    /// The signed receipts of all receivers of a new generation that they have promoted it; empty for a signature.
    pub promoted: Vec<NodeReceipt>,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// A signature.
    Signature(SignatureResult),
    /// A new generation of shares.
    Generation(Box<Staged>),
}

impl Published {
    /// The contract's `result_ref`.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        match self {
            Self::Signature(signature) => signature.result_ref(),
            Self::Generation(staged) => staged.result_ref(),
        }
    }
}

/// The digest of a call's arguments: it distinguishes a repeated call from another call with the same effect id.
pub(crate) fn content<T: Serialize>(call: &T) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/node-call/v1", call)
}
