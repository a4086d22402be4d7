//! Counts the distinct people who approved, and checks their number and roles.

use crate::quorum_data::QuorumData;
use crate::roles::unfilled;
use crate::rule::Rule;
use gateway_policy_sdk::{Answer, Approval, Facts, Moment, Quorum, Request, Unreadable, count};

/// Approvals required if the deployment does not set a number.
const REQUIRED_DEFAULT: u64 = 1;

/// Evaluates the quorum. A missing quorum is a denial if `is_final`, otherwise an obligation.
pub(crate) fn judge(
    request: &Request,
    facts: &dyn Facts,
    data: &QuorumData,
    rule: &Rule,
    is_final: bool,
    answer: &mut Answer,
) -> Quorum {
    let required = required(facts).unwrap_or_else(|fact| unreadable(&fact, u32::MAX, answer));
    let separated = separated(facts).unwrap_or_else(|fact| unreadable(&fact, true, answer));
    let separated = separated || data.submitter_excluded;
    let fault = |approval: &Approval| why_not(approval, request, separated, data);
    let mut quorum = count(request, required.max(rule.approvals), |approval| fault(approval).is_none());
    let missing_roles = missing_roles(request, &quorum, data, rule);
    quorum.satisfied = quorum.satisfied && missing_roles.is_empty();

    if let Some(why_not) =
        request.approvals.last().filter(|_| request.moment == Moment::Approval).and_then(fault)
    {
        answer.because("approval_not_counted", why_not);
    }
    if quorum.satisfied {
        answer.because("quorum_reached", progress(&quorum));
        return quorum;
    }
    let own = separated
        && request.approvals.iter().any(|approval| approval.subject_id == request.submitter.subject_id);
    let text = shortfall(&quorum, &missing_roles, own.then_some(&request.submitter.subject_id));
    if is_final {
        answer.deny("quorum_not_reached", text);
    } else {
        answer.oblige("collect_approvals", text);
    }
    quorum
}

/// Why the approval does not count; `None` if it counts.
fn why_not(approval: &Approval, request: &Request, separated: bool, data: &QuorumData) -> Option<String> {
    let subject = &approval.subject_id;
    if separated && *subject == request.submitter.subject_id {
        return Some(["approval of `", subject, "` does not count: the submitter cannot approve"].concat());
    }
    let roles = data.approver_roles.as_ref()?;
    if approval.roles.iter().any(|role| roles.contains(role)) {
        return None;
    }
    let one_of = roles.join("`, `");
    Some(["approval of `", subject, "` does not count: it takes one of the roles `", &one_of, "`"].concat())
}

/// The roles that still need people, each as many times as people are missing.
fn missing_roles<'a>(request: &Request, quorum: &Quorum, data: &QuorumData, rule: &'a Rule) -> Vec<&'a str> {
    if rule.roles.is_empty() {
        return Vec::new();
    }
    let first = |subject: &String| request.approvals.iter().find(|approval| approval.subject_id == *subject);
    let people: Vec<&Approval> = quorum.subjects.iter().filter_map(first).collect();
    unfilled(&rule.roles, &people, data.roles_shared)
}

/// The number of approvals that the deployment requires. Zero only if the deployment sets zero.
fn required(facts: &dyn Facts) -> Result<u32, Unreadable> {
    let required = facts.integer("deployment.required_approvals")?.unwrap_or(REQUIRED_DEFAULT);
    Ok(u32::try_from(required).unwrap_or(u32::MAX))
}

/// Whether the submitter's own approval does not count. True unless the deployment sets `false`.
fn separated(facts: &dyn Facts) -> Result<bool, Unreadable> {
    Ok(facts.flag("deployment.separation_of_duties")?.unwrap_or(true))
}

/// Denies, and continues with the strictest value.
fn unreadable<T>(fact: &Unreadable, strictest: T, answer: &mut Answer) -> T {
    answer.deny(
        "fact_unreadable",
        ["fact ", fact.name, " has the unusable value `", &fact.value, "`"].concat(),
    );
    strictest
}

/// For example `1 of 2 approvals`.
fn progress(quorum: &Quorum) -> String {
    [&quorum.subjects.len().to_string(), " of ", &quorum.required.to_string(), " approvals"].concat()
}

/// How many approvals count, how many people and which roles are missing, and whether the submitter's own does not count.
fn shortfall(quorum: &Quorum, missing_roles: &[&str], own: Option<&String>) -> String {
    let missing = u64::from(quorum.required).saturating_sub(quorum.subjects.len() as u64);
    let mut text = [&progress(quorum), "; ", &missing.to_string(), " more from other people"].concat();
    if !missing_roles.is_empty() {
        text.push_str("; among all approvals still needed: `");
        text.push_str(&missing_roles.join("`, `"));
        text.push('`');
    }
    if let Some(submitter) = own {
        text.push_str("; the approval of submitter `");
        text.push_str(submitter);
        text.push_str("` does not count");
    }
    text
}
