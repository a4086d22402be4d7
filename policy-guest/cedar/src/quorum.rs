//! Counts the distinct people who approved, and those of each group that a `@quorum` names.

use gateway_policy_sdk::{Answer, Approval, Facts, Group, Moment, Quorum, Request, Unreadable};
use std::collections::BTreeMap;

/// Approvals required if neither the deployment nor a policy sets a number.
const REQUIRED_DEFAULT: u64 = 1;

/// Highest number that a `@quorum` may name, more than any deployment has approvers.
const NEEDED_MAX: u32 = 1_000;

/// Longest `@wait` or `@postpone`, which is the longest that the gateway accepts.
const WAIT_MS_MAX: u64 = 366 * 86_400_000;

/// What an admission needs besides the permission.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// The approvals, by group. The empty name stands for anyone who may approve.
    pub(crate) people: BTreeMap<String, u32>,
    /// The time between the quorum and the admission.
    wait_ms: u64,
    /// The time from now until the admission is tried again.
    postpone_ms: u64,
}

impl Needs {
    /// Reads the annotations of a policy; `None` if it has none that says what an admission needs.
    ///
    /// # Errors
    /// What is wrong with an annotation.
    pub(crate) fn read<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, String> {
        let (quorum, wait, postpone) = (annotation("quorum"), annotation("wait"), annotation("postpone"));
        if quorum.or(wait).or(postpone).is_none() {
            return Ok(None);
        }
        let duration = |name: &str, text: Option<&str>| text.map_or(Ok(0), |text| duration_ms(name, text));
        Ok(Some(Self {
            people: quorum.map_or(Ok(BTreeMap::new()), people)?,
            wait_ms: duration("wait", wait)?,
            postpone_ms: duration("postpone", postpone)?,
        }))
    }

    /// Of each, the higher one.
    pub(crate) fn raise(&mut self, other: &Self) {
        for (group, number) in &other.people {
            let highest = self.people.entry(group.clone()).or_insert(0);
            *highest = (*highest).max(*number);
        }
        self.wait_ms = self.wait_ms.max(other.wait_ms);
        self.postpone_ms = self.postpone_ms.max(other.postpone_ms);
    }
}

/// Reads `@quorum`: `NUMBER` or `NUMBER GROUP`, several separated by commas.
fn people(text: &str) -> Result<BTreeMap<String, u32>, String> {
    let mut needs = BTreeMap::new();
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

/// Reads a number and a unit, such as `24h`, as milliseconds.
fn duration_ms(name: &str, text: &str) -> Result<u64, String> {
    let unit_ms = match text.chars().last() {
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        Some('d') => 86_400_000,
        _ => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    let ms = number.and_then(|number| number.checked_mul(unit_ms));
    ms.filter(|ms| (1..=WAIT_MS_MAX).contains(ms)).ok_or_else(|| {
        format!("`@{name}(\"{text}\")` is not understood: write minutes, hours or days as in `90m`, `24h` or `7d`, at most `366d`")
    })
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
    // A wait begins with the last approval.
    let least = u32::from(needs.wait_ms > 0).max(quorum.required);
    quorum.required = needs.people.values().copied().fold(least, u32::max);
    quorum.satisfied = quorum.subjects.len() as u64 >= u64::from(quorum.required);
    groups.into_iter().for_each(|group| quorum.require(group));
}

/// Has the admission of a request with a quorum wait, from the last approval that counts, or from now.
pub(crate) fn postpone(
    request: &Request,
    facts: &dyn Facts,
    quorum: &Quorum,
    needs: &Needs,
    answer: &mut Answer,
) {
    let counts = |approval: &&Approval| quorum.subjects.contains(&approval.by.subject_id);
    let last_ms = request.approvals.iter().filter(counts).map(|approval| approval.at_ms).max();
    let mut at_ms =
        last_ms.filter(|_| needs.wait_ms > 0).map(|last_ms| last_ms.saturating_add(needs.wait_ms));
    if needs.postpone_ms > 0 {
        match facts.integer("time.now_ms") {
            Ok(Some(now_ms)) => at_ms = at_ms.max(Some(now_ms.saturating_add(needs.postpone_ms))),
            Ok(None) => answer.deny("cedar_error", &[("fault", "fact time.now_ms is missing")]),
            Err(fact) => unreadable(&fact, (), answer),
        }
    }
    if let Some(at_ms) = at_ms.filter(|_| quorum.satisfied) {
        answer.oblige("admit_not_before", &[("at_ms", &at_ms.to_string())]);
    }
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
