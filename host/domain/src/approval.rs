//! Approvals: one vote a subject, and what an approver signs when the deployment asks for it.
//!
//! Reading order: [`Statement`] (the bytes an approver signs), [`ApprovalSignature`], [`Approvers`] (whose keys are
//! believed), [`SigningRule`] (what a gateway or a node makes of an approval), [`ApprovalFault`] (why it is refused). The
//! gateway, every node and the offline verifier check with this same code, each against a registry of its own.

mod approvers;
mod fault;
pub mod limits;
mod registry;
mod rule;
mod signature;
mod statement;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod webauthn;

pub use approvers::Approvers;
pub use fault::ApprovalFault;
pub use registry::{Algorithm, ApproverEntry, ApproversFile, KeyEntry, RegistryError, Validity};
pub use rule::{Pinned, SigningRule, claimed_between};
pub use signature::{ApprovalSignature, Base64Url, Hex64};
pub use statement::{ApprovalSubject, Statement, TAG};

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};

/// One person's approval of one intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Who approves.
    pub subject_id: String,
    /// In which roles.
    pub roles: Vec<String>,
    /// When, by the caller's clock: a claim. The approver's signature is over it.
    pub claimed_at_ms: i64,
    /// When, by the gateway's clock.
    pub approved_at_ms: EpochMs,
    /// The approver's own, over [`Statement`]; without one the approval is the gateway's word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<Box<ApprovalSignature>>,
}

/// Digest that the admission decision binds: which approvals, of which intent, with their signatures.
///
/// # Errors
/// [`CanonicalError`], which approvals do not give.
pub fn approvals_root(intent_hash: Hex32, approvals: &[Approval]) -> Result<Hex32, CanonicalError> {
    #[derive(Serialize)]
    struct Approved<'a> {
        intent_hash: Hex32,
        approvals: &'a [Approval],
    }
    canonical::digest("svc/approvals/v1", &Approved { intent_hash, approvals })
}

/// How many different subjects approved.
#[must_use]
pub fn n_distinct_subjects(approvals: &[Approval]) -> usize {
    approvals
        .iter()
        .map(|approval| approval.subject_id.as_str())
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}
