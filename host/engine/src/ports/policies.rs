//! Storage and description of policy bundles. The policy adapter chooses the active one.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use serde::Serialize;

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

/// The reason why a bundle became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationKind {
    /// It was offered with a higher sequence than any before it.
    Activate,
    /// A signed record named it, whatever its own sequence.
    Rollback,
}

impl ActivationKind {
    /// The word in the store, in views and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Rollback => "rollback",
        }
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

/// The manifest of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleDescription {
    /// The bundle's name, the same for all its versions.
    pub bundle_id: String,
    /// The version, for people.
    pub version: String,
    /// The bundle's own sequence.
    pub sequence: u64,
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// The imports of the component.
    pub capabilities: Vec<String>,
    /// Names of the facts that it may read.
    pub facts: Vec<String>,
    /// The wasm fuel of one evaluation.
    pub fuel: u64,
    /// The linear memory of one evaluation, bytes.
    pub memory_bytes: u64,
    /// The first instant of validity.
    pub not_before_ms: Option<EpochMs>,
    /// The last instant of validity.
    pub not_after_ms: Option<EpochMs>,
}

/// An activation with the description of its bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivatedBundle {
    /// The activation.
    pub activation: Activation,
    /// `None` when this version of the gateway can no longer read the manifest.
    pub bundle: Option<BundleDescription>,
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

/// Comparison of a candidate with the active bundle. Each evaluation of the candidate is counted in `n_evaluated` and
/// in exactly one of the members from `n_same` to `n_faults`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ShadowCounts {
    pub n_evaluated: u64,
    pub n_same: u64,
    pub n_allow_to_deny: u64,
    pub n_deny_to_allow: u64,
    /// The same decision with other reasons, obligations, or counted approvals.
    pub n_otherwise_different: u64,
    /// At least one of the two bundles failed.
    pub n_faults: u64,
    /// Not evaluated, because the queue was full.
    pub n_dropped: u64,
    /// The wasm fuel of the active bundle in these evaluations.
    pub fuel_active: u64,
    /// The wasm fuel of the candidate.
    pub fuel_candidate: u64,
}

/// A candidate bundle: it evaluates the same requests as the active one and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateBundle {
    /// The bundle.
    pub bundle: BundleDescription,
    /// Key ids of those who signed the bundle.
    pub signers: Vec<String>,
    /// The time since which it is evaluated.
    pub since_ms: EpochMs,
    /// Its comparison with the active bundle.
    pub counts: ShadowCounts,
}

/// The state of the deployment's policy bundles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStatus {
    /// The active bundle.
    pub active: Option<ActivatedBundle>,
    /// The kind of fault that ends every evaluation, if the active bundle cannot evaluate.
    pub fault: Option<&'static str>,
    /// The candidate bundle.
    pub candidate: Option<CandidateBundle>,
    /// The present offers that are refused.
    pub refused: Vec<RefusedOffer>,
    /// The last refused offer, whether or not it is still present.
    pub last_refusal: Option<RefusedOffer>,
    /// Earlier and present activations, newest first.
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
}
