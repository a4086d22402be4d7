//! The signed admission decision: what an authority states once a quorum and the policy agree, and how anyone
//! checks it. Nodes trust nothing else.

use crate::canonical::{self, CanonicalError};
use crate::dsse::{Envelope, EnvelopeError, KeySet};
use crate::ids::{EpochName, Hex32, KeyId, OperationId};
use crate::intent::{KeyUse, OperationType};
use crate::roster::{Roster, Threshold};
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};

/// The DSSE payload type of an [`AdmissionDecision`].
pub const PAYLOAD_TYPE: &str = "application/vnd.svc.admission-decision.v1+json";

/// What is admitted, completely: nobody can change any of it after the approvals (decisions.md 10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionDecision {
    /// The operation admitted.
    pub operation_id: OperationId,
    /// What is done to or with the key.
    pub operation_type: OperationType,
    /// Hash of the canonical intent.
    pub intent_hash: Hex32,
    /// The 32 bytes a signature will be over.
    pub request_digest: Hex32,
    /// The key.
    pub key_id: KeyId,
    /// What the key serves: for a signature always what this operation is. None for a key that nothing was signed with
    /// yet and whose creation left it open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serves: Option<KeyUse>,
    /// The generation of shares that may act: the key's at the time of the decision.
    pub epoch: EpochName,
    /// Root of that generation, and so of the key's public half; zero for key creation.
    pub epoch_root: Hex32,
    /// Who may act: the signers, or all who hold shares now or will.
    pub participants: Roster,
    /// How many of those who hold shares now must.
    pub threshold: Threshold,
    /// Who holds shares of that generation; none for signing, which names its signers, and for key creation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub holders: Option<Roster>,
    /// The generation that the operation makes; none for signing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<Target>,
    /// The child key to sign with, when one was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub derivation: Option<Derivation>,
    /// The bundle that allowed it.
    pub bundle_hash: Hex32,
    /// What the bundle was asked.
    pub policy_input_hash: Hex32,
    /// What it answered.
    pub policy_output_hash: Hex32,
    /// Which approvals, see [`crate::approval::approvals_root`].
    pub approvals_root: Hex32,
    /// Not valid before.
    pub not_before_ms: EpochMs,
    /// Not valid from this instant on.
    pub not_after_ms: EpochMs,
}

/// A generation of shares that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Whose generation: the operation's key, or the new one that a rotation makes.
    pub key_id: KeyId,
    /// Its name.
    pub epoch: EpochName,
    /// Who will hold its shares.
    pub participants: Roster,
    /// How many of them must act together.
    pub threshold: Threshold,
}

/// A non-hardened BIP-32 child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derivation {
    /// `digits/digits`.
    pub path: String,
    /// The additive tweak: sum of the path's `I_L`.
    pub tweak: Hex32,
    /// The child's public key, 32 bytes, hexadecimal.
    pub public_key_hex: String,
}

/// Why a decision is not believed.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// The envelope itself.
    #[error("admission decision is not signed by the authority")]
    Envelope(#[from] EnvelopeError),
    /// The payload is no decision, or not in canonical form.
    #[error("admission decision is not canonical")]
    NotCanonical,
    /// Too early or too late.
    #[error("admission decision is valid from `{not_before_ms}` until `{not_after_ms}`, not at `{now_ms}`")]
    Expired {
        /// First valid instant.
        not_before_ms: u64,
        /// First instant no longer valid.
        not_after_ms: u64,
        /// When it was asked.
        now_ms: u64,
    },
}

impl AdmissionDecision {
    /// The canonical bytes an authority signs.
    ///
    /// # Errors
    /// [`CanonicalError`], which a decision does not give.
    pub fn payload(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_bytes(self)
    }
}

/// A decision with its proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// What was decided.
    pub decision: AdmissionDecision,
    /// The signed envelope around its canonical bytes.
    pub envelope: Envelope,
    /// [`admission_hash`] of those bytes.
    pub admission_hash: Hex32,
}

/// `SHA-256("svc/admission/v1" || payload)`: the contract's `admission_hash`.
#[must_use]
pub fn admission_hash(payload: &[u8]) -> Hex32 {
    canonical::digest_bytes("svc/admission/v1", payload)
}

/// Checks signature, form and validity.
///
/// # Errors
/// [`DecisionError`].
pub fn verify(envelope: &Envelope, authorities: &KeySet, now: EpochMs) -> Result<Admission, DecisionError> {
    let (payload, _) = envelope.verify(PAYLOAD_TYPE, authorities)?;
    let decision = parse(&payload).ok_or(DecisionError::NotCanonical)?;
    if now < decision.not_before_ms || now >= decision.not_after_ms {
        return Err(DecisionError::Expired {
            not_before_ms: decision.not_before_ms.0,
            not_after_ms: decision.not_after_ms.0,
            now_ms: now.0,
        });
    }
    Ok(Admission { admission_hash: admission_hash(&payload), decision, envelope: envelope.clone() })
}

/// Canonical bytes back to a decision; anything that re-encodes to other bytes is refused.
fn parse(payload: &[u8]) -> Option<AdmissionDecision> {
    let decision: AdmissionDecision = serde_json::from_slice(payload).ok()?;
    (decision.payload().ok()? == payload).then_some(decision)
}
