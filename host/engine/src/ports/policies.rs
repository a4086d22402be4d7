//! Policy bundles: keeping them, and telling people about them. Which one judges is the policy adapter's to say.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;

/// A bundle's files by name, ascending. Nothing about them is believed: whoever reads them back verifies them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBundle {
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// For people.
    pub bundle_id: String,
    /// Signatures included.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Why a bundle became the active one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationKind {
    /// It was offered, with a higher sequence than any before it.
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

/// That a bundle became the active one. The newest has the highest sequence, and is the high-water mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// When.
    pub at_ms: EpochMs,
    /// The bundle's own sequence; of a rollback, the record's.
    pub sequence: u64,
    /// Which bundle.
    pub bundle_hash: Hex32,
    /// Why.
    pub kind: ActivationKind,
    /// Key ids of those who signed the bundle; of a rollback, the record. Ascending.
    pub signers: Vec<String>,
    /// The record's reason; empty unless it is a rollback.
    pub reason: String,
}

/// What became of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    /// It is durable, and the new high-water mark.
    Recorded,
    /// The high-water mark names this bundle already: nothing was added, except signatures that the bundle gained.
    Standing,
    /// The high-water mark is at or above its sequence, with another bundle: nothing was written.
    Superseded {
        /// The high-water mark's sequence.
        reached: u64,
    },
}

/// Keeps bundles and activations.
#[async_trait]
pub trait KeepPolicies: Send + Sync {
    /// One transaction: compares with the high-water mark, keeps the bundle, adds the activation. Returns after the
    /// write is on disk.
    async fn activation_append(
        &self,
        activation: Activation,
        bundle: StoredBundle,
    ) -> Result<Activated, Unavailable>;

    /// Newest first, at most `n_max`: the first is the high-water mark.
    async fn activations(&self, n_max: u32) -> Result<Vec<Activation>, Unavailable>;

    /// A bundle that was active once.
    async fn bundle_load(&self, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable>;

    /// One file of a bundle that was active once.
    async fn bundle_file(&self, bundle_hash: Hex32, name: &str) -> Result<Option<Vec<u8>>, Unavailable>;
}

/// What a bundle's authors declared, and who vouched for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleDescription {
    /// Name, the same for every version.
    pub bundle_id: String,
    /// For people.
    pub version: String,
    /// The bundle's own sequence.
    pub sequence: u64,
    /// SHA-256 of the canonical manifest.
    pub bundle_hash: Hex32,
    /// The component's imports.
    pub capabilities: Vec<String>,
    /// Names of the facts it may ask for.
    pub facts: Vec<String>,
    /// Wasm fuel of one evaluation.
    pub fuel: u64,
    /// Linear memory of one evaluation, bytes.
    pub memory_bytes: u64,
    /// First instant of validity.
    pub not_before_ms: Option<EpochMs>,
    /// Last instant of validity.
    pub not_after_ms: Option<EpochMs>,
}

/// An activation and what it activated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivatedBundle {
    /// When and why.
    pub activation: Activation,
    /// None when this version of the gateway cannot read its manifest any more.
    pub bundle: Option<BundleDescription>,
}

/// What was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedOffer {
    /// When.
    pub at_ms: EpochMs,
    /// What was offered: `bundle`, `trust_roots`, `activation`, `candidate`, `last_good`.
    pub offer: &'static str,
    /// Which bundle, when that much is known.
    pub bundle_hash: Option<Hex32>,
    /// One line for people: no path, no secret.
    pub why: String,
}

/// How often the candidate agreed with the active bundle, each evaluation counted once in `n_evaluated` and in exactly
/// one of the others down to `n_faults`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct ShadowCounts {
    pub n_evaluated: u64,
    pub n_same: u64,
    pub n_allow_to_deny: u64,
    pub n_deny_to_allow: u64,
    /// The same decision for other reasons, obligations, or counted approvals.
    pub n_otherwise_different: u64,
    /// One of the two gave no verdict.
    pub n_faults: u64,
    /// Not evaluated: the queue was full.
    pub n_dropped: u64,
    /// Wasm fuel of the active bundle in these evaluations.
    pub fuel_active: u64,
    /// Wasm fuel of the candidate.
    pub fuel_candidate: u64,
}

/// A bundle that sees what the active one saw and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateBundle {
    /// What it is.
    pub bundle: BundleDescription,
    /// Key ids of those who signed it.
    pub signers: Vec<String>,
    /// Since when it is asked.
    pub since_ms: EpochMs,
    /// What it would have done.
    pub counts: ShadowCounts,
}

/// Everything there is to tell of the deployment's bundles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStatus {
    /// The bundle that judges.
    pub active: Option<ActivatedBundle>,
    /// Why it does not judge: the kind of fault that every evaluation ends with.
    pub fault: Option<&'static str>,
    /// The bundle that only looks on.
    pub candidate: Option<CandidateBundle>,
    /// What is offered now and is not taken.
    pub refused: Vec<RefusedOffer>,
    /// The last offer that was not taken, whether or not it is still there.
    pub last_refusal: Option<RefusedOffer>,
    /// Newest first.
    pub history: Vec<ActivatedBundle>,
}

/// What a probe has to know of the bundles, without asking the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyHealth {
    /// Hash of the bundle that judges, or that would if it could.
    pub bundle_hash: Option<Hex32>,
    /// Why it does not judge.
    pub fault: Option<&'static str>,
    /// What is offered now and is not taken.
    pub refused: Vec<RefusedOffer>,
}

/// Tells which bundles there are.
#[async_trait]
pub trait DescribePolicies: Send + Sync {
    /// With at most `n_max` activations.
    async fn status(&self, n_max: u32) -> Result<PolicyStatus, Unavailable>;

    /// At once.
    fn health(&self) -> PolicyHealth;
}
