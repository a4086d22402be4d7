//! The steps that nodes and authority make for an operation, and their outcomes.

use crate::admission::Admission;
use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::key::Staged;
use crate::policy;
use crate::receipt::NodeReceipt;
use crate::roster::{ParticipantIndex, Roster};
use crate::step::EffectId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A step to be made on some nodes. Idempotent at the far end by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Its name.
    pub id: EffectId,
    /// The nodes that are to make the step; none for [`EffectStep::Decision`](crate::step::EffectStep::Decision).
    pub nodes: BTreeSet<ParticipantIndex>,
}

/// A signature and what it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureResult {
    /// The suite.
    pub signature_profile: String,
    /// The key it verifies under (the child, when derived): 32 bytes, hexadecimal.
    pub public_key_hex: String,
    /// The 32 bytes signed.
    pub signed_digest: Hex32,
    /// 64 bytes, hexadecimal.
    pub signature_hex: String,
    /// Who signed.
    pub signers: Roster,
    /// The signing package of all of them: their receipts name it.
    pub package_hash: Hex32,
}

/// Why an operation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable word.
    pub code: String,
    /// One sentence for people.
    pub detail: String,
    /// Participants that misbehaved, when that is why.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub culprits: Vec<ParticipantIndex>,
}

impl SignatureResult {
    /// The contract's `result_ref` of an operation that signs.
    ///
    /// # Errors
    /// [`CanonicalError`], which no signature gives.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/result/v1", self)
    }
}

impl Outcome {
    /// Digest of the answer; that of the ceremony is the contract's `result_ref`.
    ///
    /// # Errors
    /// [`CanonicalError`], which no answer gives.
    pub fn result_root(&self) -> Result<Hex32, CanonicalError> {
        match self {
            Self::DecisionSigned { admission, .. } => Ok(admission.admission_hash),
            Self::Acked(receipts) => canonical::digest("svc/receipts/v1", receipts),
            Self::Signed { signature, .. } => signature.result_ref(),
            Self::Staged { staged, .. } => staged.result_ref(),
            Self::AttemptLost(reason) => canonical::digest("svc/attempt-lost/v1", reason),
            Self::Rejected { failure, .. } => canonical::digest("svc/rejected/v1", failure),
        }
    }
}

/// What the world answered to an effect. Being unreachable is no answer: the effect stays owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The policy allowed it and the authority signed.
    DecisionSigned {
        /// The evaluation behind it.
        policy: policy::Outcome,
        /// The signed decision.
        admission: Box<Admission>,
    },
    /// These nodes did the step. Every receipt was checked.
    Acked(Vec<NodeReceipt>),
    /// The ceremony gave a signature.
    Signed {
        /// The signature.
        signature: Box<SignatureResult>,
        /// The word of every signer, checked.
        receipts: Vec<NodeReceipt>,
    },
    /// The ceremony staged new shares on every node that is to hold one.
    Staged {
        /// The new generation.
        staged: Box<Staged>,
        /// The word of each of them, checked.
        receipts: Vec<NodeReceipt>,
    },
    /// The ceremony's secrets are gone (a node restarted): only a fresh attempt can succeed.
    AttemptLost(String),
    /// Somebody entitled to refuse did, for good.
    Rejected {
        /// Why.
        failure: Failure,
        /// The evaluation behind it, when the policy refused.
        policy: Option<policy::Outcome>,
    },
}
