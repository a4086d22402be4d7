//! The signed admission decision, and its verification. The authority signs it when the policy allows an operation and its
//! quorum is reached; a node works on an operation only after it has verified the decision.

use crate::canonical::{self, CanonicalError};
use crate::dsse::{Envelope, EnvelopeError, KeySet};
use crate::ids::{EpochName, Hex32, KeyId, OperationId};
use crate::intent::{Intent, OperationType, Taproot};
use crate::roster::{Roster, Threshold};
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};

/// The DSSE payload type of an [`AdmissionDecision`].
pub const PAYLOAD_TYPE: &str = "application/vnd.svc.admission-decision.v2+json";

/// Most authorities that a verifier pins, earlier keys included: each signature of a decision takes a verification.
pub const AUTHORITIES_MAX: usize = 16;

/// The authorities that a verifier pins, and how many of them must sign a decision.
#[derive(Clone, Debug)]
pub struct Authorities {
    keys: KeySet,
    // INVARIANT: from 1 to the number of keys, or 1 if there are none; `new` keeps it.
    threshold: usize,
}

/// Why these are not pins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthoritiesError {
    /// A key is not a public key.
    #[error(transparent)]
    Key(#[from] EnvelopeError),
    /// There are more than [`AUTHORITIES_MAX`].
    #[error("there are {0} authorities, and at most {AUTHORITIES_MAX} can be pinned")]
    TooMany(usize),
    /// The threshold is zero, or more than the number of different keys.
    #[error(
        "the threshold of authorities must be from 1 to their number, which is {n_keys}, not {threshold}"
    )]
    Threshold {
        /// The threshold.
        threshold: usize,
        /// The number of different keys.
        n_keys: usize,
    },
}

impl Authorities {
    /// Pins these Ed25519 public keys, `threshold` of which must sign. Without keys no decision verifies.
    pub fn new(
        public_keys: impl IntoIterator<Item = [u8; 32]>,
        threshold: usize,
    ) -> Result<Self, AuthoritiesError> {
        let keys = KeySet::new(public_keys)?;
        let n_keys = keys.len();
        if n_keys > AUTHORITIES_MAX {
            return Err(AuthoritiesError::TooMany(n_keys));
        }
        if threshold == 0 || threshold > n_keys.max(1) {
            return Err(AuthoritiesError::Threshold { threshold, n_keys });
        }
        Ok(Self { keys, threshold })
    }
}

/// The complete description of what is admitted, so that nothing can change after the approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionDecision {
    /// The operation that is admitted.
    pub operation_id: OperationId,
    /// The type of the operation.
    pub operation_type: OperationType,
    /// Hash of the canonical intent.
    pub intent_hash: Hex32,
    /// The 32 bytes that a signature signs.
    pub request_digest: Hex32,
    /// The key.
    pub key_id: KeyId,
    /// The generation of shares that may act: the key's at the time of the decision.
    pub epoch: EpochName,
    /// Root of that generation, which fixes the key's public half; zero for key creation.
    pub epoch_root: Hex32,
    /// The participants that may act: the signers, or all present and future holders.
    pub participants: Roster,
    /// The number of present holders that must act.
    pub threshold: Threshold,
    /// The holders of that generation; `None` for signing, which names its signers, and for key creation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub holders: Option<Roster>,
    /// The generation that the operation makes; `None` for signing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<Target>,
    /// The derived key that signs: of every payment, and of a custody signature that requests one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub derivation: Option<Derivation>,
    /// The bundle that allowed it.
    pub bundle_hash: Hex32,
    /// Hash of the policy's input.
    pub policy_input_hash: Hex32,
    /// Hash of the policy's output.
    pub policy_output_hash: Hex32,
    /// Digest of the approvals, see [`crate::approval::approvals_root`].
    pub approvals_root: Hex32,
    /// The first valid instant.
    pub not_before_ms: EpochMs,
    /// The first instant that is no longer valid.
    pub not_after_ms: EpochMs,
}

/// A generation of shares that an operation makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The key of the generation: the operation's, or the new one of a rotation.
    pub key_id: KeyId,
    /// The name of the generation.
    pub epoch: EpochName,
    /// The participants that will hold its shares.
    pub participants: Roster,
    /// The number of participants that must act together.
    pub threshold: Threshold,
}

/// A key that is derived from the operation's: the key for payments, a non-hardened BIP-32 child key, a Taproot output key, or
/// several of them in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derivation {
    /// Whether it is the key for payments or derived from that: true exactly for payments.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub payments: bool,
    /// The child's path, as `digits/digits`; `None` if no child key signs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The Taproot output, if its output key signs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub taproot: Option<Taproot>,
    /// The additive tweak, in the encoding of scalars of the key's curve: the sum of that of the key for payments, of `I_L` along the
    /// path, and of the Taproot tweak, each with its sign.
    pub tweak: Hex32,
    /// The public key that verifies the signature: 32 bytes, hexadecimal.
    pub public_key_hex: String,
}

impl Derivation {
    /// Whether a decision with this derived key is for what the intent requests: the key for payments exactly if the intent is a payment,
    /// and the path and Taproot output of its terms. `payments_public_key_hex` is that of the operation's key; keys derived further are not
    /// computed here.
    #[must_use]
    pub fn is_requested(this: Option<&Self>, intent: &Intent, payments_public_key_hex: &str) -> bool {
        let is_payment = matches!(intent, Intent::Payment(_));
        let terms = intent.signing_terms().filter(|terms| is_payment || terms.has_derived_key());
        match (terms, this) {
            (None, None) => true,
            (None, Some(_)) | (Some(_), None) => false,
            (Some(terms), Some(Self { payments, path, taproot, public_key_hex, .. })) => {
                *payments == is_payment
                    && *path == terms.bip32.as_ref().map(|child| child.path.clone())
                    && *taproot == terms.taproot
                    && (terms.has_derived_key()
                        || (!public_key_hex.is_empty() && public_key_hex == payments_public_key_hex))
            }
        }
    }
}

/// The reason why a decision is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// The envelope is not signed by a pinned authority.
    #[error("admission decision is not signed by the authority")]
    Envelope(#[from] EnvelopeError),
    /// It has more signatures than authorities are pinned.
    #[error("admission decision has {n_signatures} signatures, and {n_pinned} authorities are pinned")]
    TooManySignatures {
        /// The signatures in the envelope.
        n_signatures: usize,
        /// The pinned authorities.
        n_pinned: usize,
    },
    /// Fewer authorities signed than the threshold.
    #[error("admission decision is signed by {n_signed} of {threshold} required authorities")]
    TooFewSignatures {
        /// The different pinned authorities that signed.
        n_signed: usize,
        /// The threshold.
        threshold: usize,
    },
    /// The payload is not a decision, or not in canonical form.
    #[error("admission decision is not canonical")]
    NotCanonical,
    /// The decision is not valid yet, or no longer.
    #[error("admission decision is valid from `{not_before_ms}` until `{not_after_ms}`, not at `{now_ms}`")]
    Expired {
        /// First valid instant.
        not_before_ms: u64,
        /// The first instant that is no longer valid.
        not_after_ms: u64,
        /// The time of the check.
        now_ms: u64,
    },
}

impl AdmissionDecision {
    /// The canonical bytes an authority signs.
    pub fn payload(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_bytes(self)
    }
}

/// A decision with its signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The decision.
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

/// Verifies the signatures, the canonical form and the validity period of a decision.
pub fn verify(
    envelope: &Envelope,
    authorities: &Authorities,
    now: EpochMs,
) -> Result<Admission, DecisionError> {
    let admission = verify_signed(envelope, authorities)?;
    let AdmissionDecision { not_before_ms, not_after_ms, .. } = admission.decision;
    if now < not_before_ms || now >= not_after_ms {
        return Err(DecisionError::Expired {
            not_before_ms: not_before_ms.0,
            not_after_ms: not_after_ms.0,
            now_ms: now.0,
        });
    }
    Ok(admission)
}

/// Verifies the signatures and the canonical form of a decision, which may have expired.
///
/// # Errors
/// [`DecisionError`], except `Expired`.
pub fn verify_signed(envelope: &Envelope, authorities: &Authorities) -> Result<Admission, DecisionError> {
    let Authorities { keys, threshold } = authorities;
    let (n_signatures, n_pinned) = (envelope.signatures.len(), keys.len());
    if n_signatures > n_pinned {
        return Err(DecisionError::TooManySignatures { n_signatures, n_pinned });
    }
    let (payload, signers) = envelope.verify(PAYLOAD_TYPE, keys)?;
    if signers.len() < *threshold {
        return Err(DecisionError::TooFewSignatures { n_signed: signers.len(), threshold: *threshold });
    }
    let decision = parse(&payload).ok_or(DecisionError::NotCanonical)?;
    Ok(Admission { admission_hash: admission_hash(&payload), decision, envelope: envelope.clone() })
}

/// Parses canonical bytes; `None` for bytes that are encoded differently.
fn parse(payload: &[u8]) -> Option<AdmissionDecision> {
    let decision: AdmissionDecision = serde_json::from_slice(payload).ok()?;
    (decision.payload().ok()? == payload).then_some(decision)
}
