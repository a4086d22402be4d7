//! Shapes of policy bundles.

use gateway_domain::ids::Hex32;
use gateway_engine::ports::{
    ActivatedBundle, BundleDescription, CandidateBundle, PolicyStatus, RefusedOffer, ShadowCounts,
};
use serde::Serialize;
use utoipa::ToSchema;

/// Answer of `GET /v1/policy/bundles`.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyBundlesResponse {
    /// The active bundle; null if no bundle is active.
    #[schema(required = true)]
    pub active: Option<ActivatedBundleView>,
    /// Why policy cannot be evaluated; null if it can.
    #[schema(required = true)]
    pub fault: Option<String>,
    /// The candidate, which evaluates the same requests without effect; null if no candidate is set.
    #[schema(required = true)]
    pub candidate: Option<CandidateBundleView>,
    /// The offers that are refused now; at most one of each kind.
    pub refused: Vec<RefusedOffer>,
    /// The last refusal, even if the offer has been withdrawn; null if there was none since the start.
    #[schema(required = true)]
    pub last_refusal: Option<RefusedOffer>,
    /// Activations and rollbacks, newest first.
    pub history: Vec<ActivatedBundleView>,
}

/// The content of a bundle's manifest.
#[derive(Debug, Serialize, ToSchema)]
pub struct BundleView {
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
#[derive(Debug, Serialize, ToSchema)]
pub struct BundleLimits {
    /// Wasm fuel: about one unit per instruction.
    pub fuel: u64,
    /// Linear memory in bytes.
    pub memory_bytes: u64,
}

/// The period in which a bundle may be active, epoch milliseconds; null means unlimited.
#[derive(Debug, Serialize, ToSchema)]
pub struct BundleValidity {
    /// The first millisecond of the period.
    #[schema(required = true)]
    pub not_before_ms: Option<u64>,
    /// The last millisecond of the period.
    #[schema(required = true)]
    pub not_after_ms: Option<u64>,
}

/// A bundle that became the active one.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActivatedBundleView {
    /// The manifest's content; null when this version of the gateway can no longer read it.
    #[schema(required = true)]
    pub bundle: Option<BundleView>,
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// `activate` or `rollback`.
    pub kind: String,
    /// The sequence number of the activation: the bundle's, or the rollback record's. Later activations have a higher one.
    pub activation_sequence: u64,
    /// Key ids of the signers of the bundle, or of the rollback record.
    pub signers: Vec<String>,
    /// The rollback record's reason; empty for an activation.
    pub reason: String,
    /// Time of the activation, epoch milliseconds.
    pub activated_at_ms: u64,
}

/// The candidate bundle.
#[derive(Debug, Serialize, ToSchema)]
pub struct CandidateBundleView {
    /// The manifest's content.
    pub bundle: BundleView,
    /// Key ids of the bundle's signers.
    pub signers: Vec<String>,
    /// The time since when the bundle is the candidate, epoch milliseconds.
    pub since_ms: u64,
    /// The comparison with the active bundle since then.
    pub shadow: ShadowView,
}

/// Counts of evaluations of the candidate. Each evaluation is in exactly one of `same`, `allow_to_deny`, `deny_to_allow`,
/// `otherwise_different` and `faults`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShadowView {
    /// Evaluations in total.
    pub evaluated: u64,
    /// Both bundles gave the same decision, reasons, obligations and counted approvals.
    pub same: u64,
    /// The active bundle allowed and the candidate denied.
    pub allow_to_deny: u64,
    /// The active bundle denied and the candidate allowed.
    pub deny_to_allow: u64,
    /// Both bundles gave the same decision, with different reasons, obligations or counted approvals.
    pub otherwise_different: u64,
    /// At least one of the two ended with a fault.
    pub faults: u64,
    /// Not evaluated, because too many evaluations were waiting; not part of `evaluated`.
    pub dropped: u64,
    /// Wasm fuel that the active bundle used in these evaluations.
    pub fuel_active: u64,
    /// Wasm fuel that the candidate used in these evaluations.
    pub fuel_candidate: u64,
}

impl From<PolicyStatus> for PolicyBundlesResponse {
    fn from(status: PolicyStatus) -> Self {
        Self {
            active: status.active.map(Into::into),
            fault: status.fault.map(str::to_owned),
            candidate: status.candidate.map(Into::into),
            refused: status.refused,
            last_refusal: status.last_refusal,
            history: status.history.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<BundleDescription> for BundleView {
    fn from(bundle: BundleDescription) -> Self {
        Self {
            bundle_id: bundle.bundle_id,
            version: bundle.version,
            sequence: bundle.sequence,
            bundle_hash: bundle.bundle_hash,
            capabilities: bundle.capabilities,
            facts: bundle.facts,
            limits: BundleLimits { fuel: bundle.fuel, memory_bytes: bundle.memory_bytes },
            validity: BundleValidity {
                not_before_ms: bundle.not_before_ms.map(|at| at.0),
                not_after_ms: bundle.not_after_ms.map(|at| at.0),
            },
        }
    }
}

impl From<ActivatedBundle> for ActivatedBundleView {
    fn from(activated: ActivatedBundle) -> Self {
        let ActivatedBundle { activation, bundle } = activated;
        Self {
            bundle: bundle.map(Into::into),
            bundle_hash: activation.bundle_hash,
            kind: activation.kind.as_str().to_owned(),
            activation_sequence: activation.sequence,
            signers: activation.signers,
            reason: activation.reason,
            activated_at_ms: activation.at_ms.0,
        }
    }
}

impl From<CandidateBundle> for CandidateBundleView {
    fn from(candidate: CandidateBundle) -> Self {
        let CandidateBundle { bundle, signers, since_ms, counts } = candidate;
        Self { bundle: bundle.into(), signers, since_ms: since_ms.0, shadow: counts.into() }
    }
}

impl From<ShadowCounts> for ShadowView {
    fn from(counts: ShadowCounts) -> Self {
        Self {
            evaluated: counts.n_evaluated,
            same: counts.n_same,
            allow_to_deny: counts.n_allow_to_deny,
            deny_to_allow: counts.n_deny_to_allow,
            otherwise_different: counts.n_otherwise_different,
            faults: counts.n_faults,
            dropped: counts.n_dropped,
            fuel_active: counts.fuel_active,
            fuel_candidate: counts.fuel_candidate,
        }
    }
}
