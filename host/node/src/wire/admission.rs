//! The shapes of a submission and of an admission.

use super::WireFault;
use crate::call::{AdmitRequest, Owner, ShownReceipt, unverified_decision};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::policy::Recorded;
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};

/// The announcement of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeOperationSubmitRequest {
    /// What the operation will be.
    pub intent: NodeIntent,
    /// Digest of the client that submitted it.
    pub client_binding_root: Hex32,
    /// Digest of the person or service that submitted it; `null` if the caller does not disclose it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub subject_root: Option<Hex32>,
    /// The caller's time of the submission, milliseconds since the epoch. A claim, on which nothing depends.
    pub submitted_at_ms: u64,
}

/// An operation as nodes see it before the decision: digests, and what is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeIntent {
    /// The version of this shape: 1.
    pub version: u32,
    /// The operation.
    pub operation_id: OperationId,
    /// The key.
    pub key_id: KeyId,
    /// The session of the first attempt. Before the decision, whose hash it depends on, it is the operation's id.
    pub session_id: Hex32,
    /// Root of the generation of shares that acts; zero for a key creation.
    pub epoch_id: Hex32,
    /// The 32 bytes that a signature signs.
    pub request_digest: Hex32,
    /// Hash of the intent.
    pub business_intent_root: Hex32,
    /// SHA-256 of `svc/public-fields/v1` and the canonical `{operation_kind, requested_participants}`.
    pub public_fields_root: Hex32,
    /// The operation's type.
    pub operation_kind: OperationType,
    /// Digest of the tenant; `null` if the caller does not disclose it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tenant_root: Option<Hex32>,
    /// The participants that may act, ascending.
    pub requested_participants: Vec<u16>,
    /// Who starts the publication: `manual` or `automatic`.
    pub publication_mode: String,
    /// The signature profile of the key.
    pub signature_profile: String,
    /// `sha-256`.
    pub hash_profile: String,
    /// `rfc8785-integers-as-strings`.
    pub canonicalization_profile: String,
}

const HASH_PROFILE: &str = "sha-256";
const CANONICALIZATION_PROFILE: &str = "rfc8785-integers-as-strings";

/// The request to admit an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeAdmissionDecisionRequest {
    /// The authority's signed decision: a DSSE envelope.
    pub decision: Envelope,
    /// What the decision is about.
    pub domain_manifest: DomainManifest,
    /// The keys that signed the decision. The node trusts its own pins only.
    pub authority_set: AuthoritySet,
    /// The policy that allowed it.
    pub policy_bundle: PolicyBundle,
    /// The first valid instant of the decision, milliseconds since the epoch.
    pub decided_at_ms: u64,
    /// The caller's clock, milliseconds since the epoch. A node whose own differs by more than five minutes refuses the request.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub now_ms: Option<u64>,
    /// The announcement, for a node that does not have it: saves a round.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub submission: Option<NodeOperationSubmitRequest>,
    /// The newest receipt of this node that the caller knows. A node whose log does not have it stops.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub newest: Option<ShownReceipt>,
}

/// What a decision is about: its hashes are over these values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DomainManifest {
    /// The intent.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub intent: Intent,
    /// The approvals, in the order in which the decision hashes them.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub approvals: Vec<Approval>,
    /// The tenant and its name for the key.
    pub owner: Owner,
    /// The client that submitted the operation.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub submitter: ClientBinding,
}

/// The signers of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AuthoritySet {
    /// The ids of the keys, in the order of the signatures.
    pub key_ids: Vec<String>,
}

/// The policy that allowed an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyBundle {
    /// SHA-256 of the bundle's canonical manifest.
    pub bundle_hash: Hex32,
    /// Hash of the policy's input.
    pub input_hash: Hex32,
    /// Hash of the policy's output.
    pub output_hash: Hex32,
    /// What the node needs to run the policy itself and compare.
    pub recorded: Recorded,
}

impl NodeOperationSubmitRequest {
    /// The announcement of the operation that a decision admits. `profile` is the name of the key's signature profile.
    pub fn new(
        request: &AdmitRequest,
        decision: &AdmissionDecision,
        profile: &str,
        submitted_at_ms: EpochMs,
    ) -> Result<Self, CanonicalError> {
        let AdmissionDecision { operation_id, operation_type, key_id, .. } = *decision;
        let requested_participants: Vec<u16> = decision.participants.iter().map(|index| index.0).collect();
        let terms = request.intent.signing_terms();
        let mode = match terms.map(|terms| terms.publication_mode) {
            Some(gateway_domain::intent::PublicationMode::Automatic) => "automatic",
            Some(gateway_domain::intent::PublicationMode::Manual) | None => "manual",
        };
        Ok(Self {
            intent: NodeIntent {
                version: 1,
                operation_id,
                key_id,
                session_id: Hex32::new(*operation_id.0.as_bytes()),
                epoch_id: decision.epoch_root,
                request_digest: decision.request_digest,
                business_intent_root: decision.intent_hash,
                public_fields_root: public_fields_root(operation_type, &requested_participants)?,
                operation_kind: operation_type,
                tenant_root: Some(canonical::digest("svc/tenant/v1", &request.owner.tenant)?),
                requested_participants,
                publication_mode: mode.to_owned(),
                signature_profile: profile.to_owned(),
                hash_profile: HASH_PROFILE.to_owned(),
                canonicalization_profile: CANONICALIZATION_PROFILE.to_owned(),
            },
            client_binding_root: canonical::digest("svc/client-binding/v1", &request.submitter)?,
            subject_root: Some(canonical::digest("svc/subject/v1", &request.submitter.subject_id)?),
            submitted_at_ms: submitted_at_ms.0,
        })
    }

    /// Checks the members against each other.
    pub fn check(&self) -> Result<(), WireFault> {
        let NodeIntent { version, operation_kind, requested_participants, .. } = &self.intent;
        let fault = |pointer, message: &str| Err(WireFault::new(pointer, message));
        if *version != 1 {
            return fault("/intent/version", "must be 1");
        }
        if self.intent.session_id.as_bytes() != self.intent.operation_id.0.as_bytes() {
            return fault("/intent/session_id", "must be the operation's id before the decision");
        }
        if !requested_participants.is_sorted_by(|one, next| one < next) {
            return fault("/intent/requested_participants", "must be ascending");
        }
        let root = public_fields_root(*operation_kind, requested_participants);
        if root.ok() != Some(self.intent.public_fields_root) {
            return fault(
                "/intent/public_fields_root",
                "must be the digest of the type and the participants",
            );
        }
        if self.intent.hash_profile != HASH_PROFILE {
            return fault("/intent/hash_profile", "must be `sha-256`");
        }
        if self.intent.canonicalization_profile != CANONICALIZATION_PROFILE {
            return fault("/intent/canonicalization_profile", "must be `rfc8785-integers-as-strings`");
        }
        Ok(())
    }
}

fn public_fields_root(
    operation_kind: OperationType,
    requested_participants: &[u16],
) -> Result<Hex32, CanonicalError> {
    #[derive(Serialize)]
    struct Public<'a> {
        operation_kind: OperationType,
        requested_participants: &'a [u16],
    }
    canonical::digest("svc/public-fields/v1", &Public { operation_kind, requested_participants })
}

impl NodeAdmissionDecisionRequest {
    /// The request of an admission. `profile` is the name of the key's signature profile.
    pub fn new(
        request: &AdmitRequest,
        decision: &AdmissionDecision,
        profile: &str,
        now: EpochMs,
    ) -> Result<Self, CanonicalError> {
        let AdmitRequest { intent, approvals, owner, submitter, policy, envelope, .. } = request.clone();
        let key_ids = envelope.signatures.iter().map(|signature| signature.keyid.clone()).collect();
        Ok(Self {
            decision: envelope,
            domain_manifest: DomainManifest { intent, approvals, owner, submitter },
            authority_set: AuthoritySet { key_ids },
            policy_bundle: PolicyBundle {
                bundle_hash: decision.bundle_hash,
                input_hash: decision.policy_input_hash,
                output_hash: decision.policy_output_hash,
                recorded: policy,
            },
            decided_at_ms: decision.not_before_ms.0,
            now_ms: Some(now.0),
            submission: Some(NodeOperationSubmitRequest::new(request, decision, profile, now)?),
            newest: None,
        })
    }

    /// The request, for a path with this operation. `announced` is the announcement that the node has. The node verifies the
    /// decision afterwards: here it is only compared with what the request repeats of it.
    pub fn admit_request(
        self,
        operation_id: OperationId,
        announced: Option<&NodeOperationSubmitRequest>,
    ) -> Result<AdmitRequest, WireFault> {
        let decision = unverified_decision(&self.decision)
            .ok_or_else(|| WireFault::new("/decision/payload", "must be an admission decision"))?;
        let fault = |pointer, message: &str| Err(WireFault::new(pointer, message));
        if decision.operation_id != operation_id {
            return fault("/decision/payload", "must be the decision of the operation of the path");
        }
        let signers = self.decision.signatures.iter().map(|signature| &signature.keyid);
        if !self.authority_set.key_ids.iter().eq(signers) {
            return fault("/authority_set/key_ids", "must be the keys of the decision's signatures");
        }
        let PolicyBundle { bundle_hash, input_hash, output_hash, recorded } = self.policy_bundle;
        let hashes = (decision.bundle_hash, decision.policy_input_hash, decision.policy_output_hash);
        if (bundle_hash, input_hash, output_hash) != hashes {
            return fault("/policy_bundle", "must have the hashes of the decision");
        }
        if self.decided_at_ms != decision.not_before_ms.0 {
            return fault("/decided_at_ms", "must be the decision's first valid instant");
        }
        let DomainManifest { intent, approvals, owner, submitter } = self.domain_manifest;
        let effect = EffectId { operation: operation_id, step: EffectStep::Admission, attempt: 1 };
        let envelope = self.decision;
        let request =
            AdmitRequest { effect, intent, approvals, owner, submitter, policy: recorded, envelope };
        let Some(submission) = self.submission.as_ref().or(announced) else {
            return fault("/submission", "is required: this node has no announcement of the operation");
        };
        submission.check()?;
        check_announced(submission, &request, &decision)?;
        Ok(request)
    }
}

/// Checks that the decision is about the announced operation.
fn check_announced(
    announced: &NodeOperationSubmitRequest,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
) -> Result<(), WireFault> {
    let profile = &announced.intent.signature_profile;
    let submitted_at_ms = EpochMs(announced.submitted_at_ms);
    let expected = NodeOperationSubmitRequest::new(request, decision, profile, submitted_at_ms);
    let mut expected = expected.map_err(|_| WireFault::new("/domain_manifest", "has no canonical form"))?;
    if announced.subject_root.is_none() {
        expected.subject_root = None;
    }
    if announced.intent.tenant_root.is_none() {
        expected.intent.tenant_root = None;
    }
    if expected == *announced {
        Ok(())
    } else {
        Err(WireFault::new(
            "/submission",
            "must be the announcement of the operation that the decision admits",
        ))
    }
}
