//! The node surface on the wire: the contract's shapes of the calls to a node, and their answers. JSON; 32-byte values are 64
//! lowercase hexadecimal digits, other bytes hexadecimal too.
//!
//! The gateway writes the requests and a node reads them; both use these types. Each request becomes the argument of a method of
//! [`Node`](crate::Node). What a request repeats of the decision is compared with the decision.

mod admission;
mod steps;

pub use admission::{
    AuthoritySet, DomainManifest, NodeAdmissionDecisionRequest, NodeIntent, NodeOperationSubmitRequest,
    PolicyBundle,
};
pub use gateway_policy::{BUNDLE_UNKNOWN, OFFER_BODY_BYTES_MAX, OfferBundleRequest, OfferFault};
pub use steps::{
    ExecuteAnswer, ExecuteBody, Health, LogEntries, MissingSharesAnswer, MissingSharesRequest,
    NodeOperationView, Nothing, Package, PolicyReceiptAnswer, ReceiptAnswer, RecoverAnswer, Start,
    StepRequest,
};

use crate::call::{Call, Subject};
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_threshold::SignatureProfile;
use serde::{Deserialize, Serialize};

/// Largest body of a request, bytes. The messages of a ceremony of 64 participants are the largest.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Why a request is not a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` {message}")]
pub struct WireFault {
    /// JSON pointer to the member.
    pub pointer: &'static str,
    /// The rule that it breaks.
    pub message: String,
}

impl From<OfferFault> for WireFault {
    fn from(OfferFault { pointer, message }: OfferFault) -> Self {
        Self { pointer, message }
    }
}

impl WireFault {
    fn new(pointer: &'static str, message: impl Into<String>) -> Self {
        Self { pointer, message: message.into() }
    }
}

/// The identifiers of a signature profile: constants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecutionProfile {
    /// The product.
    pub domain_id: String,
    /// The signature profile.
    pub profile_id: String,
    /// The algorithm, as its standard names it.
    pub alg_id: String,
    /// The form of a signature.
    pub shape_id: String,
    /// The family of threshold protocols.
    pub family_id: String,
}

impl From<SignatureProfile> for ExecutionProfile {
    fn from(profile: SignatureProfile) -> Self {
        let (alg_id, shape_id) = match profile {
            SignatureProfile::FrostEd25519Sha512 => ("FROST(Ed25519, SHA-512)", "rfc8032-ed25519"),
            SignatureProfile::FrostSecp256k1Sha256Tr => ("FROST(secp256k1, SHA-256)-TR", "bip340-schnorr"),
        };
        Self {
            domain_id: "svc.operation-gateway".to_owned(),
            profile_id: profile.name().to_owned(),
            alg_id: alg_id.to_owned(),
            shape_id: shape_id.to_owned(),
            family_id: "frost".to_owned(),
        }
    }
}

/// The step of a call. The node compares each member with the decision that it stored, and with its own chain of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StepContext {
    /// The last segment of the path; for `recover`, the step whose receipts are lost.
    pub op_class: EffectStep,
    /// The position of the step in the operation's order of steps, from 1, the admission.
    pub step_seq: u32,
    /// Hash of the decision that admitted the operation.
    pub admission_hash: Hex32,
    /// Hash of the intent.
    pub intent_hash: Hex32,
    /// Hash of the node's transition before this step.
    pub prev_transition_hash: Hex32,
}

/// The context of every call after the admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CallContext {
    /// The identifiers of the key's signature profile.
    pub execution_profile: ExecutionProfile,
    /// The step.
    pub step: StepContext,
    /// The operation.
    pub operation_id: OperationId,
    /// The key.
    pub key_id: KeyId,
    /// The id of the attempt: SHA-256 of `svc/session/v1` and the canonical `{admission_hash, operation_id, attempt}`.
    pub session_id: Hex32,
    /// Root of the generation of shares that acts; zero for a key creation.
    pub epoch_id: Hex32,
    /// The 32 bytes that a signature signs.
    pub request_digest: Hex32,
    /// The attempt, from 1; `null` is 1.
    #[cfg_attr(feature = "openapi", schema(required, minimum = 1))]
    pub lane: Option<u32>,
    /// The phase of the operation at the node before the step.
    pub phase: String,
    /// The part of the step: `step` for steps of one call.
    pub slot: Slot,
}

/// The parts of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Slot {
    /// A step of one call.
    Step,
    /// `execute` of a signature, round one.
    Commitments,
    /// `execute` of a signature, round two.
    Share,
    /// `execute` of a ceremony: its first call.
    CeremonyStart,
    /// `execute` of a ceremony: delivers messages.
    CeremonyMessages,
    /// `execute`: discards the attempt instead.
    DiscardAttempt,
}

/// `SHA-256("svc/session/v1" || {admission_hash, operation_id, attempt})`.
pub fn session_id(call: &Call) -> Result<Hex32, CanonicalError> {
    #[derive(Serialize)]
    struct Session {
        admission_hash: Hex32,
        operation_id: OperationId,
        attempt: u32,
    }
    let Call { effect, admission_hash, .. } = *call;
    let session = Session { admission_hash, operation_id: effect.operation, attempt: effect.attempt };
    canonical::digest("svc/session/v1", &session)
}

/// The position of a step, and the phase of the operation before it.
const fn position(step: EffectStep) -> (u32, &'static str) {
    match step {
        EffectStep::Decision => (0, "PendingApproval"),
        EffectStep::Admission => (1, "Submitted"),
        EffectStep::PolicyReceipt => (2, "Admitted"),
        EffectStep::Execute => (3, "ReceiptMaterialized"),
        EffectStep::CommitEpoch => (4, "Executing"),
        EffectStep::Publish => (5, "Executed"),
        EffectStep::Discard => (6, "Failed"),
    }
}

impl CallContext {
    /// The context of a call.
    pub fn new(call: &Call, slot: Slot) -> Result<Self, CanonicalError> {
        let Call { effect, admission_hash, previous, subject } = *call;
        let (step_seq, phase) = position(effect.step);
        Ok(Self {
            execution_profile: subject.profile.into(),
            step: StepContext {
                op_class: effect.step,
                step_seq,
                admission_hash,
                intent_hash: subject.intent_hash,
                prev_transition_hash: previous,
            },
            operation_id: effect.operation,
            key_id: subject.key_id,
            session_id: session_id(call)?,
            epoch_id: subject.epoch_root,
            request_digest: subject.request_digest,
            lane: Some(effect.attempt),
            phase: phase.to_owned(),
            slot,
        })
    }

    /// The call, for a path with this operation and step.
    pub fn call(&self, operation_id: OperationId, step: EffectStep) -> Result<Call, WireFault> {
        let fault = |pointer, message: &str| Err(WireFault::new(pointer, message));
        let known: Option<SignatureProfile> = self.execution_profile.profile_id.parse().ok();
        let known = known.filter(|profile| ExecutionProfile::from(*profile) == self.execution_profile);
        let Some(profile) = known else {
            return fault("/execution_profile", "must be the identifiers of a signature profile");
        };
        if self.operation_id != operation_id {
            return fault("/operation_id", "must be the operation of the path");
        }
        if self.step.op_class != step {
            return fault("/step/op_class", "must be the step of the path");
        }
        let (step_seq, phase) = position(step);
        if self.step.step_seq != step_seq {
            return Err(WireFault::new("/step/step_seq", format!("must be {step_seq}")));
        }
        if self.phase != phase {
            return Err(WireFault::new("/phase", format!("must be `{phase}`")));
        }
        let effect = EffectId { operation: operation_id, step, attempt: self.lane.unwrap_or(1) };
        let subject = Subject {
            key_id: self.key_id,
            epoch_root: self.epoch_id,
            intent_hash: self.step.intent_hash,
            request_digest: self.request_digest,
            profile,
        };
        let (admission_hash, previous) = (self.step.admission_hash, self.step.prev_transition_hash);
        let call = Call { effect, admission_hash, previous, subject };
        if session_id(&call).ok() != Some(self.session_id) {
            return fault("/session_id", "must be the id of the attempt in `lane`");
        }
        Ok(call)
    }
}
