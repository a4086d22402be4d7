//! Counts the distinct people who approved.

use crate::settings::Settings;
use gateway_policy_sdk::{Answer, Facts, Moment, Quorum, Request, Unreadable};

/// Approvals required if neither the deployment nor the bundle sets a number.
const REQUIRED_DEFAULT: u64 = 1;

/// Counts by the deployment's rules; the bundle may require more people, but not fewer.
pub(crate) fn count(
    request: &Request,
    facts: &dyn Facts,
    settings: &Settings,
    answer: &mut Answer,
) -> Quorum {
    let deployment = facts.integer("deployment.required_approvals");
    let deployment = deployment.map(|number| number.unwrap_or(REQUIRED_DEFAULT));
    let deployment = deployment.unwrap_or_else(|fact| unreadable(&fact, u64::MAX, answer));
    let separated = facts.flag("deployment.separation_of_duties").map(|flag| flag.unwrap_or(true));
    let separated = separated.unwrap_or_else(|fact| unreadable(&fact, true, answer));
    let required = u32::try_from(deployment).unwrap_or(u32::MAX).max(settings.required_approvals);
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
