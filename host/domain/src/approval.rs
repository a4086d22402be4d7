//! Approvals: one vote a subject.

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
    /// When, by the caller's clock: a claim.
    pub claimed_at_ms: i64,
    /// When, by the gateway's clock.
    pub approved_at_ms: EpochMs,
}

/// Digest that the admission decision binds: which approvals, of which intent.
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
