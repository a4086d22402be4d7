//! Counts approvals.

use crate::{Approval, Group, Quorum, Request};

/// Counts every person once, in the order of the approvals, without the approvals for which `counts` is false.
///
/// The gateway also enforces its own minimum: it never admits with fewer approvals than the deployment requires.
#[must_use]
pub fn count(request: &Request, required: u32, counts: impl Fn(&Approval) -> bool) -> Quorum {
    let subjects = people(request, counts);
    let satisfied = subjects.len() as u64 >= u64::from(required);
    Quorum { subjects, required, satisfied, groups: Vec::new() }
}

/// The group of those whose approvals count and for which `belongs` is true. One person may be in several groups.
///
/// Add it to the quorum's `groups`, and make the quorum unsatisfied if the group lacks a person: see [`Group::is_complete`].
#[must_use]
pub fn group(
    request: &Request,
    quorum: &Quorum,
    name: &str,
    needed: u32,
    belongs: impl Fn(&Approval) -> bool,
) -> Group {
    let have =
        people(request, |approval| quorum.subjects.contains(&approval.by.subject_id) && belongs(approval));
    Group { name: name.into(), needed, have }
}

impl Group {
    /// Whether as many people approved as the group needs.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.have.len() as u64 >= u64::from(self.needed)
    }
}

impl Quorum {
    /// Adds a group. The quorum is satisfied only if the group is complete too.
    pub fn require(&mut self, group: Group) {
        self.satisfied = self.satisfied && group.is_complete();
        self.groups.push(group);
    }
}

/// The subjects of those approvals, each person once.
fn people(request: &Request, counts: impl Fn(&Approval) -> bool) -> Vec<String> {
    let mut people: Vec<&str> = Vec::new();
    let mut subjects = Vec::new();
    for approval in request.approvals.iter().filter(|approval| counts(approval)) {
        if !people.contains(&approval.by.person.as_str()) {
            people.push(&approval.by.person);
            subjects.push(approval.by.subject_id.clone());
        }
    }
    subjects
}
