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

/// A signature, its key and the bytes that it signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignatureResult {
    /// The signature profile, for example `frost-ed25519-sha512`.
    pub signature_profile: String,
    /// The public key that verifies it (the child's, when derived): 32 bytes, hexadecimal.
    pub public_key_hex: String,
    /// The 32 bytes that are signed.
    pub signed_digest: Hex32,
    /// 64 bytes, hexadecimal.
    pub signature_hex: String,
    /// The participants that signed.
    pub signers: Roster,
    /// Hash of the FROST signing package: the signers' receipts name it.
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
    ///
    /// # Errors
    /// [`CanonicalError`], which a signature never causes.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/result/v1", self)
    }
}

impl Outcome {
    /// Digest of the outcome. For a signature or new shares it is the contract's `result_ref`, for a decision the admission
    /// hash.
    ///
    /// # Errors
    /// [`CanonicalError`], which an outcome never causes.
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
