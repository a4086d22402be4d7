//! How many distinct people must approve, and who of them counts.

use gateway_policy_sdk::{Answer, Facts, Quorum, Request, Unreadable, count};

/// Approvals asked for when the deployment names no number.
const REQUIRED_DEFAULT: u64 = 1;

/// Judges the quorum; when it is missing that is a denial if `must_be_reached`, otherwise an obligation.
pub(crate) fn judge(
    request: &Request,
    facts: &dyn Facts,
    must_be_reached: bool,
    answer: &mut Answer,
) -> Quorum {
    let required = required(facts).unwrap_or_else(|fact| unreadable(&fact, u32::MAX, answer));
    let separated = separated(facts).unwrap_or_else(|fact| unreadable(&fact, true, answer));
    let submitter = &request.submitter.subject_id;
    let quorum = count(request, required, |approval| !(separated && approval.subject_id == *submitter));

    let own = separated && request.approvals.iter().any(|approval| approval.subject_id == *submitter);
    let missing = u64::from(quorum.required).saturating_sub(quorum.subjects.len() as u64);
    if quorum.satisfied {
        answer.because("quorum_reached", progress(&quorum));
    } else if must_be_reached {
        answer.deny("quorum_not_reached", shortfall(&quorum, missing, own.then_some(submitter)));
    } else {
        answer.oblige("collect_approvals", shortfall(&quorum, missing, own.then_some(submitter)));
    }
    quorum
}

/// Zero only when the deployment says zero.
fn required(facts: &dyn Facts) -> Result<u32, Unreadable> {
    let required = facts.integer("deployment.required_approvals")?.unwrap_or(REQUIRED_DEFAULT);
    Ok(u32::try_from(required).unwrap_or(u32::MAX))
}

/// Whether the submitter's own approval does not count; it does not unless the deployment says otherwise.
fn separated(facts: &dyn Facts) -> Result<bool, Unreadable> {
    Ok(facts.flag("deployment.separation_of_duties")?.unwrap_or(true))
}

/// Denies, and goes on with the strictest reading.
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

/// What is there, what is missing, and whose approval was left out.
fn shortfall(quorum: &Quorum, missing: u64, own: Option<&String>) -> String {
    let mut text = [&progress(quorum), "; ", &missing.to_string(), " more from other people"].concat();
    if let Some(submitter) = own {
        text.push_str("; the approval of submitter `");
        text.push_str(submitter);
        text.push_str("` does not count");
    }
    text
}
