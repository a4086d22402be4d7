//! The calls to a node.

use gateway_domain::approval::Approval;
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{EffectId, SignatureResult, Staged};
use gateway_domain::roster::ParticipantIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A whole operation, with the decision that admits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitRequest {
    /// The id of this call.
    pub effect: EffectId,
    /// The intent.
    pub intent: Intent,
    /// The approvals that the decision rests on, in its order.
    pub approvals: Vec<Approval>,
    /// The tenant, and its name for the key.
    pub owner: Owner,
    /// The signed decision.
    pub envelope: Envelope,
}

/// The tenant of an operation, and its name for the key. [`gateway_domain::intent::key_id`] of both must be the decision's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The tenant.
    pub tenant: Tenant,
    /// The tenant's name for the key.
    pub key_ref: KeyRef,
}

/// The context of every later call: the contract's `CallContext`, as far as a node needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The id of this call; `effect.attempt` is the attempt at the ceremony.
    pub effect: EffectId,
    /// The decision it acts on.
    pub admission_hash: Hex32,
    /// The transition that it follows: see [`Chain`](gateway_domain::receipt::Chain).
    pub previous: Hex32,
}

/// The start of a ceremony that makes shares, the same for all its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeremonyStart {
    /// The holders that deal their shares; empty except for a refresh or a reshare.
    pub dealers: BTreeSet<ParticipantIndex>,
    /// The key's public package in the admitted generation, for nodes that do not hold it; empty for a new key.
    pub package: Vec<u8>,
}

/// The id of one attempt at one ceremony. Messages of one attempt are not valid in another.
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

/// The staged generation to promote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitEpoch {
    /// The attempt that staged it.
    pub attempt: u32,
    /// The generation's root.
    pub epoch_root: Hex32,
}

/// A result to publish, and its attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The attempt at the ceremony that produced the result.
    pub attempt: u32,
    /// The result.
    pub result: Published,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// A signature.
    Signature(SignatureResult),
    /// A new generation of shares.
    Generation(Box<Staged>),
}

impl Published {
    /// The contract's `result_ref`.
    ///
    /// # Errors
    /// [`CanonicalError`], which does not occur for a result.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        match self {
            Self::Signature(signature) => signature.result_ref(),
            Self::Generation(staged) => staged.result_ref(),
        }
    }
}

/// The digest of a call: it distinguishes a repeat from another use of the effect id.
pub(crate) fn content<T: Serialize>(call: &T) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/node-call/v1", call)
}
