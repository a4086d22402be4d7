//! What a node is asked.

use gateway_domain::approval::Approval;
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{EffectId, SignatureResult, Staged};
use gateway_domain::roster::ParticipantIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An operation, whole, with the decision that admits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitRequest {
    /// Names this call.
    pub effect: EffectId,
    /// What is to be done.
    pub intent: Intent,
    /// The approvals the decision rests on, in its order.
    pub approvals: Vec<Approval>,
    /// Whose operation on which key.
    pub owner: Owner,
    /// The signed decision.
    pub envelope: Envelope,
}

/// Whose key an operation is about. It names the key: [`gateway_domain::intent::key_id`] of it is the decision's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The tenant.
    pub tenant: Tenant,
    /// The tenant's name for the key.
    pub key_ref: KeyRef,
}

/// What every later call carries (the contract's `CallContext`, as far as a node needs it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Names this call; `effect.attempt` counts attempts at the ceremony.
    pub effect: EffectId,
    /// The decision it acts on.
    pub admission_hash: Hex32,
    /// The transition it follows: see [`Chain`](gateway_domain::receipt::Chain).
    pub previous: Hex32,
}

/// What a ceremony that makes shares begins with, the same for all its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeremonyStart {
    /// The holders that deal their shares anew; none unless a key is refreshed or gets another roster.
    pub dealers: BTreeSet<ParticipantIndex>,
    /// The key's public package in the generation that was admitted, for those that do not hold it; empty for a new key.
    pub package: Vec<u8>,
}

/// Names one attempt at one ceremony: nothing of it fits any other.
pub(crate) fn ceremony_id(call: &Call, start: &CeremonyStart) -> Result<[u8; 32], CanonicalError> {
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

/// Which staged shares to promote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitEpoch {
    /// The attempt that staged them.
    pub attempt: u32,
    /// The generation's root, as every participant staged it.
    pub epoch_root: Hex32,
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The attempt at the ceremony that gave the result.
    pub attempt: u32,
    /// The result.
    pub result: Published,
}

/// A result that is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// Of an operation that signs.
    Signature(SignatureResult),
    /// Of one that makes shares.
    Generation(Box<Staged>),
}

impl Published {
    /// The contract's `result_ref`.
    ///
    /// # Errors
    /// [`CanonicalError`], which no result gives.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        match self {
            Self::Signature(signature) => signature.result_ref(),
            Self::Generation(staged) => staged.result_ref(),
        }
    }
}

/// Digest of what a call says, to tell a repeat from another use of its effect id.
pub(crate) fn content<T: Serialize>(said: &T) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/node-call/v1", said)
}
