//! Counts approvals.

use crate::{Approval, Quorum, Request};

/// Counts every subject once, in the order of the approvals, without the approvals for which `counts` is false.
///
/// The gateway also enforces its own minimum: it never admits with fewer approvals than the deployment requires.
#[must_use]
pub fn count(request: &Request, required: u32, counts: impl Fn(&Approval) -> bool) -> Quorum {
    let mut subjects: Vec<String> = Vec::new();
    for approval in request.approvals.iter().filter(|approval| counts(approval)) {
        if !subjects.contains(&approval.subject_id) {
            subjects.push(approval.subject_id.clone());
        }
    }
    let satisfied = subjects.len() as u64 >= u64::from(required);
    Quorum { subjects, required, satisfied }
}
