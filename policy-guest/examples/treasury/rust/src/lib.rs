//! The rule of a treasury.
//!
//! A payment above 10,000.00 EUR, by the rates of the signed document `rates`, to a recipient that was first paid less than seven days ago or
//! never needs three treasurers, one of them of another team than the submitter, and waits 24 hours from its last approval. Any other payment
//! needs two people. On weekends and holidays in Zurich nothing is submitted or admitted. Nothing but payments is permitted.

use gateway_policy_sdk::{
    Answer, Approval, Data, Documents, Facts, Intent, Moment, Payment, Person, Policy, Quorum, Request,
    Verdict, count, group, step,
};

/// The client that submits the creation of development keys; no other has this id.
const GATEWAY: &str = "operation-gateway";

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// 10,000.00 EUR, with as many places as values have.
const LIMIT: i64 = 10_000 * 10_i64.pow(VALUE_PLACES);

/// Places of a value after the point.
const VALUE_PLACES: u32 = 4;

/// Places of a rate after the point, at most.
const RATE_PLACES: usize = 8;

/// The policy that the crate's documentation describes.
#[derive(Clone, Copy, Debug)]
pub struct Treasury;

impl Policy for Treasury {
    const DESCRIPTION: &'static str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict {
        let mut answer = Answer::new();
        let (mut needed, mut is_large, mut is_closed) = (0, false, false);
        match &request.intent {
            Intent::Payment(payment) => {
                let value = value(payment, &Documents);
                is_large = value.is_some_and(|value| value > LIMIT) && is_new(facts);
                needed = if is_large { 3 } else { 2 };
                is_closed = closed(facts, data);
                let is_refused = is_closed && matches!(request.moment, Moment::Submit | Moment::Preview);
                permit(payment, value, is_refused, &mut answer);
            }
            Intent::KeyChange(change) if change.operation == "key_create" && request.client_id == GATEWAY => {
                answer.because("development_key_permitted", &[]);
            }
            Intent::AssetAction(_) | Intent::KeyChange(_) => answer.deny("not_a_payment", &[]),
        }
        let quorum = quorum(request, needed, is_large, facts);
        if quorum.satisfied {
            wait(request, &quorum, is_large, is_closed, facts, &mut answer);
        }
        judge(request, &quorum, &mut answer);
        answer.verdict(quorum)
    }
}

fn permit(payment: &Payment, value: Option<i64>, is_refused: bool, answer: &mut Answer) {
    let amount = payment.amount_minor.to_string();
    let operands = [("amount_minor", &*amount), ("currency", &payment.currency)];
    let denials = [
        ("amount_not_convertible", value.is_none()),
        ("amount_not_positive", payment.amount_minor < 1),
        ("closed", is_refused),
    ];
    for (code, _) in denials.iter().filter(|(_, applies)| *applies) {
        answer.deny(code, &operands);
    }
    if !denials.iter().any(|(_, applies)| *applies) {
        answer.because("payment_permitted", &operands);
    }
}

/// What the payment is worth, in units of 10^-4 EUR, rounded up. `None` if its currency has no rate, or the number is too large.
fn value(payment: &Payment, documents: &dyn Data) -> Option<i64> {
    let currency = ["/rates/", &step(&payment.currency)].concat();
    let rate = documents.get("rates", &[&currency, "/rate"].concat())?;
    let decimals = documents.get("rates", &[&currency, "/decimals"].concat())?.parse::<u32>().ok()?;
    let (whole, places) = rate.split_once('.').unwrap_or((&rate, ""));
    let missing = RATE_PLACES.checked_sub(places.len())?;
    let scaled: u64 =
        [whole, places, "00000000".get(..missing)?].concat().parse().ok().filter(|scaled| *scaled > 0)?;
    let worth = i128::from(payment.amount_minor) * i128::from(scaled);
    let unit = 10_i128.checked_pow(decimals.checked_add(RATE_PLACES as u32 - VALUE_PLACES)?)?;
    i64::try_from(worth.div_euclid(unit) + i128::from(worth.rem_euclid(unit) > 0)).ok()
}

/// Whether the recipient was first paid less than seven days ago, or never, or it is not known.
fn is_new(facts: &dyn Facts) -> bool {
    let first_paid = facts.integer("recipient.first_paid_ms").unwrap_or(None);
    let now = facts.integer("time.now_ms").unwrap_or(None);
    let age_ms = first_paid.zip(now).map(|(first_paid, now)| now.saturating_sub(first_paid));
    age_ms.is_none_or(|age_ms| age_ms < 7 * DAY_MS)
}

/// Whether it is a weekend or a holiday in Zurich, or not known.
fn closed(facts: &dyn Facts, data: &dyn Data) -> bool {
    let (Some(weekday), Some(date)) =
        (facts.get("time.weekday.Europe/Zurich"), facts.get("time.date.Europe/Zurich"))
    else {
        return true;
    };
    ["saturday", "sunday"].contains(&&*weekday) || data.get("holidays.json", &["/", &date].concat()).is_some()
}

/// If the deployment's number cannot be read, no number of approvals is enough.
fn quorum(request: &Request, needed: u32, is_large: bool, facts: &dyn Facts) -> Quorum {
    let deployment = facts.integer("deployment.required_approvals").map(|number| number.unwrap_or(1));
    let deployment = deployment.ok().and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX);
    let is_separated = facts.flag("deployment.separation_of_duties").ok().flatten().unwrap_or(true);
    let required = deployment.max(needed);
    let submitter = &request.submitter;
    let mut quorum =
        count(request, required, |approval| !(is_separated && approval.by.person == submitter.person));
    if is_large {
        let is_treasurer = |approval: &Approval| approval.by.roles.iter().any(|role| role == "treasurer");
        let is_of_another_team = |approval: &Approval| match (team(&approval.by), team(submitter)) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        };
        let other_team = group(request, &quorum, "other_team", 1, |approval| {
            is_treasurer(approval) && is_of_another_team(approval)
        });
        let treasurers = group(request, &quorum, "treasurer", 3, is_treasurer);
        quorum.require(other_team);
        quorum.require(treasurers);
    }
    quorum
}

fn team(person: &Person) -> Option<&str> {
    person.attributes.iter().find(|(name, _)| name == "team").map(|(_, team)| team.as_str())
}

/// Has the admission wait: a day from the last approval that counts, and an hour at a time while it is closed.
fn wait(
    request: &Request,
    quorum: &Quorum,
    is_large: bool,
    is_closed: bool,
    facts: &dyn Facts,
    answer: &mut Answer,
) {
    let counts = |approval: &&Approval| quorum.subjects.contains(&approval.by.subject_id);
    let last = request.approvals.iter().filter(counts).map(|approval| approval.at_ms).max();
    let day = last.filter(|_| is_large).map(|last| last.saturating_add(DAY_MS));
    let open = match (
        is_closed && matches!(request.moment, Moment::Approval | Moment::Admission),
        facts.integer("time.now_ms"),
    ) {
        (true, Ok(Some(now))) => Some(now.saturating_add(HOUR_MS)),
        _ => None,
    };
    if let Some(at_ms) = day.max(open) {
        answer.oblige("admit_not_before", &[("at_ms", &at_ms.to_string())]);
    }
}

/// A missing quorum denies at admission and in previews with approvals; before that it is an obligation.
fn judge(request: &Request, quorum: &Quorum, answer: &mut Answer) {
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
