//! Payments up to a limit, approved by enough distinct people.
//!
//! | condition | code of the denial if it is not met |
//! |---|---|
//! | the operation is a payment, or the creation of a key by the gateway itself | `not_a_payment` |
//! | the amount is positive and within the limit of its currency in `bundle/data/limits.json` | `amount_not_permitted` |
//! | at admission, enough distinct people approved | `quorum_not_reached` |
//!
//! The development profile creates the key of a payment when the key does not exist yet. The policy is asked for that creation
//! before it is asked for the payment. Production needs no such rule, and there it permits nothing: no client can have the
//! gateway's id.
//!
//! Every code is declared in `bundle/manifest.json`, with a text for people, and covered by a vector in
//! `bundle/tests`.

use gateway_policy_sdk::{
    Answer, Data, Facts, Intent, Moment, Payment, Policy, Quorum, Request, Verdict, count, step,
};

/// The file in the bundle's data with the largest amount by currency, in minor units.
const LIMITS: &str = "limits.json";

/// The client that submits the creation of development keys. The gateway rejects submissions of others with this id.
const GATEWAY: &str = "operation-gateway";

/// The policy that the crate's documentation describes.
#[derive(Clone, Copy, Debug)]
pub struct ExamplePolicy;

impl Policy for ExamplePolicy {
    const DESCRIPTION: &'static str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict {
        let mut answer = Answer::new();
        match &request.intent {
            Intent::Payment(payment) => amount(payment, data, &mut answer),
            Intent::KeyChange(change)
                if change.operation == "key_create" && request.client_id == GATEWAY =>
            {
                answer.because("development_key_permitted", &[("key", &request.key_ref)]);
            }
            Intent::AssetAction(_) | Intent::KeyChange(_) => {
                answer.deny("not_a_payment", &[]);
            }
        }
        let quorum = quorum(request, facts, &mut answer);
        answer.verdict(quorum)
    }
}

/// A currency without a limit, or whose limit is not a number, has the limit 0.
fn amount(payment: &Payment, data: &dyn Data, answer: &mut Answer) {
    let pointer = ["/amount_minor_max/", &step(&payment.currency)].concat();
    let limit = data.integer(LIMITS, &pointer).unwrap_or(None).unwrap_or(0);
    let (amount, limit_text) = (payment.amount_minor.to_string(), limit.to_string());
    let operands = [("amount", &*amount), ("currency", &payment.currency), ("limit", &limit_text)];
    if (1..=limit).contains(&payment.amount_minor) {
        answer.because("amount_permitted", &operands);
    } else {
        answer.deny("amount_not_permitted", &operands);
    }
}

/// The submitter's own approval does not count. Before admission a missing quorum is an obligation, not a denial.
fn quorum(request: &Request, facts: &dyn Facts, answer: &mut Answer) -> Quorum {
    // If the required number cannot be read, no number of approvals is enough.
    let required =
        facts.integer("deployment.required_approvals").unwrap_or(None).unwrap_or(u64::from(u32::MAX));
    let required = u32::try_from(required).unwrap_or(u32::MAX);
    let submitter = &request.submitter.person;
    let quorum = count(request, required, |approval| approval.by.person != *submitter);
    let (approvals, required) = (quorum.subjects.len().to_string(), required.to_string());
    let progress = [("approvals", &*approvals), ("required", &required)];
    match request.moment {
        _ if quorum.satisfied => answer.because("quorum_reached", &progress),
        Moment::Admission => answer.deny("quorum_not_reached", &progress),
        Moment::Submit | Moment::Approval | Moment::Preview => {
            answer.oblige("collect_approvals", &progress);
        }
    }
    quorum
}

#[cfg(test)]
mod tests;
