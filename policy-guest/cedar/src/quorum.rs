//! Counts the distinct people who approved, and those of each group that a `@quorum` names.

use gateway_policy_sdk::{Answer, Facts, Group, Moment, Quorum, Request, Unreadable};
use std::collections::BTreeMap;

/// Approvals required if neither the deployment nor a policy sets a number.
const REQUIRED_DEFAULT: u64 = 1;

/// Highest number that a `@quorum` may name, more than any deployment has approvers.
const NEEDED_MAX: u32 = 1_000;

/// The approvals that a request needs, by group. The empty name stands for anyone who may approve.
pub(crate) type Needs = BTreeMap<String, u32>;

/// Reads `@quorum`: `NUMBER` or `NUMBER GROUP`, several separated by commas.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse(text: &str) -> Result<Needs, String> {
    let mut needs = Needs::new();
    for part in text.split(',').map(str::trim) {
        let (number, group) = part.split_once(' ').unwrap_or((part, ""));
        let number = number.parse().ok().filter(|number| (1..=NEEDED_MAX).contains(number));
        let (Some(number), group) = (number, group.trim()) else {
            return Err(format!(
                "`@quorum(\"{text}\")` is not understood: write a number from 1 to {NEEDED_MAX}, or numbers with \
                 groups as in `2 treasurer, 1 other_team`"
            ));
        };
        if needs.insert(group.to_owned(), number).is_some() {
            return Err(format!("`@quorum(\"{text}\")` names a group twice"));
        }
    }
    Ok(needs)
}

/// Counts by the deployment's rules; policies may require more people, but not fewer.
pub(crate) fn count(request: &Request, facts: &dyn Facts, answer: &mut Answer) -> Quorum {
    let deployment = facts.integer("deployment.required_approvals");
    let deployment = deployment.map(|number| number.unwrap_or(REQUIRED_DEFAULT));
    let deployment = deployment.unwrap_or_else(|fact| unreadable(&fact, u64::MAX, answer));
    let separated = facts.flag("deployment.separation_of_duties").map(|flag| flag.unwrap_or(true));
    let separated = separated.unwrap_or_else(|fact| unreadable(&fact, true, answer));
    let required = u32::try_from(deployment).unwrap_or(u32::MAX);
    gateway_policy_sdk::count(request, required, |approval| {
        !(separated && approval.by.person == request.submitter.person)
    })
}

/// Denies, and continues with the strictest value.
fn unreadable<T>(fact: &Unreadable, strictest: T, answer: &mut Answer) -> T {
    let unusable = format!("fact {} has the unusable value `{}`", fact.name, fact.value);
    answer.deny("cedar_error", &[("fault", &unusable)]);
    strictest
}

/// Raises the number of people to the highest that is needed, and requires the groups.
pub(crate) fn raise(quorum: &mut Quorum, needs: &Needs, groups: Vec<Group>) {
    quorum.required = needs.values().copied().fold(quorum.required, u32::max);
    quorum.satisfied = quorum.subjects.len() as u64 >= u64::from(quorum.required);
    groups.into_iter().for_each(|group| quorum.require(group));
}

/// A missing quorum denies at admission and in previews with approvals; before that it is an obligation.
pub(crate) fn judge(request: &Request, quorum: &Quorum, answer: &mut Answer) {
    let must_be_reached = match request.moment {
        Moment::Submit | Moment::Approval => false,
        Moment::Admission => true,
        Moment::Preview => !request.approvals.is_empty(),
    };
    let (approvals, required) = (quorum.subjects.len().to_string(), quorum.required.to_string());
    let progress = &[("approvals", &*approvals), ("required", &required)];
    if quorum.satisfied {
        answer.because("quorum_reached", progress);
    } else if must_be_reached {
        answer.deny("quorum_not_reached", progress);
    } else {
        answer.oblige("collect_approvals", progress);
    }
}
