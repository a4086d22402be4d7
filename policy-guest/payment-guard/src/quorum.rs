//! Counts the distinct people who approved, and checks their number and roles.

use crate::quorum_data::QuorumData;
use crate::roles::seated;
use crate::rule::Rule;
use gateway_policy_sdk::{Answer, Approval, Facts, Group, Moment, Quorum, Request, Unreadable, count};

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
    let not_counted = |approval: &Approval| why_not(approval, request, separated, data);
    let mut quorum = count(request, required.max(rule.approvals), |approval| not_counted(approval).is_none());
    for group in groups(request, &quorum, data, rule) {
        quorum.require(group);
    }

    if let Some(last) = request.approvals.last().filter(|_| request.moment == Moment::Approval)
        && let Some((name, value)) = not_counted(last)
    {
        answer.because("approval_not_counted", &[("subject", &last.by.subject_id), (name, &value)]);
    }
    let [approvals, required, missing] = [
        quorum.subjects.len() as u64,
        u64::from(quorum.required),
        u64::from(quorum.required).saturating_sub(quorum.subjects.len() as u64),
    ]
    .map(|number| number.to_string());
    let mut operands = vec![("approvals", &*approvals), ("required", &required)];
    if quorum.satisfied {
        answer.because("quorum_reached", &operands);
        return quorum;
    }
    operands.push(("missing", &missing));
    let is_own = |approval: &&Approval| separated && approval.by.person == request.submitter.person;
    operands.extend(request.approvals.iter().find(is_own).map(|own| ("submitter", &*own.by.subject_id)));
    if is_final {
        answer.deny("quorum_not_reached", &operands);
    } else {
        answer.oblige("collect_approvals", &operands);
    }
    quorum
}

/// Why the approval does not count, as an operand; `None` if it counts.
fn why_not(
    approval: &Approval,
    request: &Request,
    separated: bool,
    data: &QuorumData,
) -> Option<(&'static str, String)> {
    if separated && approval.by.person == request.submitter.person {
        return Some(("is_submitter", "true".into()));
    }
    let roles = data.approver_roles.as_ref()?;
    if approval.by.roles.iter().any(|role| roles.contains(role)) {
        return None;
    }
    Some(("needs_one_of", roles.join(", ")))
}

/// One group for each role that the rule requires, with those who fill it.
fn groups(request: &Request, quorum: &Quorum, data: &QuorumData, rule: &Rule) -> Vec<Group> {
    let first =
        |subject: &String| request.approvals.iter().find(|approval| approval.by.subject_id == *subject);
    let people: Vec<&Approval> = quorum.subjects.iter().filter_map(first).collect();
    seated(&rule.roles, &people, data.roles_shared)
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
    answer.deny("fact_unreadable", &[("fact", fact.name), ("value", &fact.value)]);
    strictest
}
