//! Storage and description of policy bundles. The policy adapter chooses the active one.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::policy::{Input, Outcome};
use gateway_domain::time::EpochMs;
use serde::Serialize;
use std::sync::Arc;

/// The files of a bundle by name, ascending. They are not trusted: each reader verifies them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBundle {
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// The bundle's name, the same for all its versions.
    pub bundle_id: String,
    /// The files by name, including signatures.
    pub files: Vec<(String, Vec<u8>)>,
}

gateway_domain::wire_words! {
    /// The reason why a bundle became active.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum ActivationKind {
        /// It was offered with a higher sequence than any before it.
        Activate = "activate",
        /// A signed record named it, whatever its own sequence.
        Rollback = "rollback",
    }
}

/// The activation of a bundle. The newest one has the highest sequence, which is the high-water mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The time of the activation.
    pub at_ms: EpochMs,
    /// The bundle's sequence, or the record's for a rollback.
    pub sequence: u64,
    /// Hash of the bundle.
    pub bundle_hash: Hex32,
    /// The reason for the activation.
    pub kind: ActivationKind,
    /// Key ids of those who signed the bundle, or the record for a rollback. Ascending.
    pub signers: Vec<String>,
    /// The reason in the record; empty unless it is a rollback.
    pub reason: String,
}

/// The result of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    /// The activation is durable, and is the new high-water mark.
    Recorded,
    /// The bundle is already active. No activation was added; the stored signatures of the bundle were updated.
    AlreadyActive,
    /// Another bundle is active with the same or a higher sequence. Nothing was written.
    Superseded {
        /// The high-water mark's sequence.
        reached: u64,
    },
}

/// Stores bundles and activations.
#[async_trait]
pub trait StorePolicies: Send + Sync {
    /// In one transaction, compares with the high-water mark, stores the bundle and adds the activation. Returns after the
    /// write is on disk.
    async fn activation_append(
        &self,
        activation: Activation,
        bundle: StoredBundle,
    ) -> Result<Activated, Unavailable>;

    /// At most `n_max` activations, newest first. The first is the high-water mark.
    async fn activations(&self, n_max: u32) -> Result<Vec<Activation>, Unavailable>;

    /// A bundle that is or was active.
    async fn bundle_load(&self, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable>;

    /// One file of a bundle that is or was active.
    async fn bundle_file(&self, bundle_hash: Hex32, name: &str) -> Result<Option<Vec<u8>>, Unavailable>;
}

/// The content of a bundle's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BundleView))]
pub struct BundleDescription {
    /// The bundle's name, the same for all versions.
    pub bundle_id: String,
    /// The version, for people.
    pub version: String,
    /// The sequence number. A newer version has a higher one.
    pub sequence: u64,
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// Interfaces that the component imports.
    pub capabilities: Vec<String>,
    /// Names of the facts that the policy may read.
    pub facts: Vec<String>,
    /// The resource limits of one evaluation.
    pub limits: BundleLimits,
    /// The period in which the bundle may be active.
    pub validity: BundleValidity,
}

/// The resource limits of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BundleLimits {
    /// Wasm fuel: about one unit per instruction.
    pub fuel: u64,
    /// Linear memory in bytes.
    pub memory_bytes: u64,
}

/// The period in which a bundle may be active, epoch milliseconds; null means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BundleValidity {
    /// The first millisecond of the period.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub not_before_ms: Option<u64>,
    /// The last millisecond of the period.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub not_after_ms: Option<u64>,
}

/// A bundle that became the active one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActivatedBundleView))]
pub struct ActivatedBundle {
    /// The manifest's content; null when this version of the gateway can no longer read it.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub bundle: Option<BundleDescription>,
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// `activate` or `rollback`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: ActivationKind,
    /// The sequence number of the activation: the bundle's, or the rollback record's. Later activations have a higher one.
    pub activation_sequence: u64,
    /// Key ids of the signers of the bundle, or of the rollback record.
    pub signers: Vec<String>,
    /// The rollback record's reason; empty for an activation.
    pub reason: String,
    /// Time of the activation, epoch milliseconds.
    pub activated_at_ms: EpochMs,
}

/// A refused offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RefusedOfferView))]
pub struct RefusedOffer {
    /// `bundle`, `activation`, `candidate`, `trust_roots`, or `active` for the active bundle when it may no longer evaluate.
    pub offer: &'static str,
    /// SHA-256 of the bundle's canonical manifest; null if it is unknown.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub bundle_hash: Option<Hex32>,
    /// The reason, for people.
    // One line, without paths or secrets.
    pub why: String,
    /// Time of the refusal, epoch milliseconds.
    pub at_ms: EpochMs,
}

/// Counts of evaluations of the candidate. Each evaluation is in exactly one of `same`, `allow_to_deny`, `deny_to_allow`,
/// `otherwise_different` and `faults`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ShadowView))]
pub struct ShadowCounts {
    /// Evaluations in total.
    #[serde(rename = "evaluated")]
    pub n_evaluated: u64,
    /// Both bundles gave the same decision, reasons, obligations and counted approvals.
    #[serde(rename = "same")]
    pub n_same: u64,
    /// The active bundle allowed and the candidate denied.
    #[serde(rename = "allow_to_deny")]
    pub n_allow_to_deny: u64,
    /// The active bundle denied and the candidate allowed.
    #[serde(rename = "deny_to_allow")]
    pub n_deny_to_allow: u64,
    /// Both bundles gave the same decision, with different reasons, obligations or counted approvals.
    #[serde(rename = "otherwise_different")]
    pub n_otherwise_different: u64,
    /// At least one of the two ended with a fault.
    #[serde(rename = "faults")]
    pub n_faults: u64,
    /// Not evaluated, because too many evaluations were waiting; not part of `evaluated`.
    #[serde(rename = "dropped")]
    pub n_dropped: u64,
    /// Wasm fuel that the active bundle used in these evaluations.
    pub fuel_active: u64,
    /// Wasm fuel that the candidate used in these evaluations.
    pub fuel_candidate: u64,
}

gateway_domain::wire_words! {
    /// How the candidate's outcome compares with that of the active bundle.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum ShadowResult {
        /// Both bundles gave the same decision, reasons, obligations and counted approvals.
        Same = "same",
        /// The active bundle allowed and the candidate denied.
        AllowToDeny = "allow_to_deny",
        /// The active bundle denied and the candidate allowed.
        DenyToAllow = "deny_to_allow",
        /// The same decision, with different reasons, obligations or counted approvals.
        OtherwiseDifferent = "otherwise_different",
        /// At least one of the two ended with a fault.
        Fault = "fault",
    }
}

/// A request that the two bundles do not answer alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowDifference {
    /// The time of the evaluation, as the policy was given it; `None` if it was given none.
    pub at_ms: Option<EpochMs>,
    /// The operation; `None` for a preview.
    pub operation_id: Option<OperationId>,
    /// The request.
    pub input: Input,
    /// How the outcomes compare.
    pub result: ShadowResult,
    /// The outcome of the active bundle, before the deployment's minimum of approvals.
    pub before: Outcome,
    /// The outcome of the candidate, before that minimum.
    pub after: Outcome,
}

/// The latest differences between a candidate and the active bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowDifferences {
    /// Hash of the candidate.
    pub candidate: Hex32,
    /// The time since when the bundle is the candidate.
    pub since_ms: EpochMs,
    /// Newest first.
    pub differences: Vec<Arc<ShadowDifference>>,
}

/// The candidate bundle.
// It evaluates the same requests as the active one and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CandidateBundleView))]
pub struct CandidateBundle {
    /// The manifest's content.
    pub bundle: BundleDescription,
    /// Key ids of the bundle's signers.
    pub signers: Vec<String>,
    /// The time since when the bundle is the candidate, epoch milliseconds.
    pub since_ms: EpochMs,
    /// The comparison with the active bundle since then.
    #[serde(rename = "shadow")]
    pub counts: ShadowCounts,
}

/// Answer of `GET /v1/policy/bundles`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PolicyBundlesResponse))]
pub struct PolicyStatus {
    /// The active bundle; null if no bundle is active.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub active: Option<ActivatedBundle>,
    /// Why policy cannot be evaluated; null if it can.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub fault: Option<&'static str>,
    /// The candidate, which evaluates the same requests without effect; null if no candidate is set.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub candidate: Option<CandidateBundle>,
    /// The offers that are refused now; at most one of each kind.
    pub refused: Vec<RefusedOffer>,
    /// The last refusal, even if the offer has been withdrawn; null if there was none since the start.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub last_refusal: Option<RefusedOffer>,
    /// Activations and rollbacks, newest first.
    pub history: Vec<ActivatedBundle>,
}

/// The state of the bundles for readiness probes, available without the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyHealth {
    /// Hash of the active bundle, even if it cannot evaluate.
    pub bundle_hash: Option<Hex32>,
    /// The kind of fault that ends every evaluation, if the active bundle cannot evaluate.
    pub fault: Option<&'static str>,
    /// The present offers that are refused.
    pub refused: Vec<RefusedOffer>,
}

/// Describes the deployment's policy bundles.
#[async_trait]
pub trait DescribePolicies: Send + Sync {
    /// The state of the bundles, with at most `n_max` activations.
    async fn status(&self, n_max: u32) -> Result<PolicyStatus, Unavailable>;

    /// The state of the bundles, from memory.
    fn health(&self) -> PolicyHealth;

    /// The latest differences between the candidate and the active bundle, of all tenants; `None` without a candidate.
    fn shadow_differences(&self) -> Option<ShadowDifferences>;
}
