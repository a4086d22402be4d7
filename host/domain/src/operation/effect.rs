//! Effects: steps that the authority or the nodes perform for an operation, and their outcomes.

use crate::admission::Admission;
use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::key::Staged;
use crate::policy;
use crate::receipt::{AttemptReceipt, NodeReceipt};
use crate::roster::{ParticipantIndex, Roster};
use crate::step::EffectId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A step for the authority or for nodes to perform. A node answers a repeat, which has the same id, from its ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The effect's id.
    pub id: EffectId,
    /// The nodes that perform the step; empty for [`EffectStep::Decision`](crate::step::EffectStep::Decision).
    pub nodes: BTreeSet<ParticipantIndex>,
}

/// The published signature. Without members before publication, and for operations on keys.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OperationResult))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureResult {
    /// The signature profile.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::intent::SignatureProfile))]
    pub signature_profile: String,
    /// The public key that the signature verifies with: the key's, of a payment the key's `payments_public_key_hex`, or that of a child
    /// key or output key of these.
    pub public_key_hex: String,
    /// The 32 bytes that are signed.
    pub signed_digest: Hex32,
    /// The signature, 64 bytes.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{128}$"))]
    pub signature_hex: String,
    /// The nodes that signed, by index.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<u16>))]
    pub signers: Roster,
    /// The hash of the signing package, which the signers' receipts name.
    pub package_hash: Hex32,
}

/// The reason why an operation cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable code for programs.
    pub code: String,
    /// One sentence for people.
    pub detail: String,
    /// The participants that caused it by misbehaving.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub culprits: Vec<ParticipantIndex>,
}

impl Failure {
    /// The end that a person gave an operation, for this reason.
    pub(super) fn said_by(code: &str, subject_id: &str, reason: &str) -> Self {
        let detail = format!("{code} by `{subject_id}`: {reason}");
        Self { code: code.to_owned(), detail, culprits: Vec::new() }
    }
}

impl SignatureResult {
    /// The contract's `result_ref` of a signing operation.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/result/v1", self)
    }
}

impl Outcome {
    /// Digest of the outcome. For a signature or new shares it is the contract's `result_ref`, for a decision the admission
    /// hash.
    pub fn result_root(&self) -> Result<Hex32, CanonicalError> {
        match self {
            Self::DecisionSigned { admission, .. } => Ok(admission.admission_hash),
            Self::Acked(receipts) => canonical::digest("svc/receipts/v1", receipts),
            Self::Signed { signature, .. } => signature.result_ref(),
            Self::Staged { staged, .. } => staged.result_ref(),
            Self::AttemptLost { reason, receipts } => {
                canonical::digest("svc/attempt-lost/v1", &(reason, receipts))
            }
            Self::Rejected { failure, .. } => canonical::digest("svc/rejected/v1", failure),
        }
    }
}

/// The outcome of an effect. A service that does not answer gives no outcome: the operation still owes the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The policy allowed the operation, and the authority signed the decision.
    DecisionSigned {
        /// The policy evaluation.
        policy: policy::Outcome,
        /// The signed decision.
        admission: Box<Admission>,
    },
    /// These nodes performed the step. Their receipts are verified.
    Acked(Vec<NodeReceipt>),
    /// The ceremony produced a signature.
    Signed {
        /// The signature.
        signature: Box<SignatureResult>,
        /// The verified receipts of all signers.
        receipts: Vec<NodeReceipt>,
    },
    /// The ceremony staged new shares on every receiver.
    Staged {
        /// The new generation of shares.
        staged: Box<Staged>,
        /// The verified receipts of all receivers.
        receipts: Vec<NodeReceipt>,
    },
    /// The secrets of the attempt are lost, for example because a node restarted. A new attempt can succeed.
    AttemptLost {
        /// The reason, for people.
        reason: String,
        /// The verified receipts of nodes that they will not complete the attempt.
        receipts: Vec<AttemptReceipt>,
    },
    /// The policy, the authority or a node refused, and would refuse a retry too.
    Rejected {
        /// The reason.
        failure: Failure,
        /// The evaluation that denied it, when the policy did.
        policy: Option<policy::Outcome>,
    },
}
