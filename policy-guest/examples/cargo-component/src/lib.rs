//! Allows payments up to a fixed amount, with approvals from as many people as the deployment requires.

#[allow(warnings)]
mod bindings;

use bindings::svc::policy::facts;
use bindings::svc::policy::types::{Decision, Intent, Quorum, Statement};
use bindings::{Guest, Request, Verdict};

/// The largest amount, in minor units of any currency.
const AMOUNT_MINOR_MAX: i64 = 100_000;

struct AmountLimit;

impl Guest for AmountLimit {
    fn describe() -> String {
        format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn evaluate(request: Request) -> Verdict {
        let is_permitted = match &request.intent {
            Intent::Payment(payment) => (1..=AMOUNT_MINOR_MAX).contains(&payment.amount_minor),
            Intent::AssetAction(_) | Intent::KeyChange(_) => false,
        };
        let (decision, code) = match is_permitted {
            true => (Decision::Allow, "amount_permitted"),
            false => (Decision::Deny, "amount_not_permitted"),
        };
        // If the number cannot be read, no number of approvals is enough.
        let required = facts::get("deployment.required_approvals");
        let required = required.and_then(|required| required.parse().ok()).unwrap_or(u32::MAX);
        // The submitter does not count, and no person counts twice, with whatever subjects.
        let mut people = vec![&request.submitter.person];
        let mut subjects: Vec<String> = Vec::new();
        for by in request.approvals.iter().map(|approval| &approval.by) {
            if !people.contains(&&by.person) {
                people.push(&by.person);
                subjects.push(by.subject_id.clone());
            }
        }
        // What a policy prints is shown with a fault, and else discarded.
        println!("{} of {required} approvals", subjects.len());
        let satisfied = subjects.len() >= required as usize;
        let quorum = Quorum { subjects, required, satisfied, groups: Vec::new() };
        let reason = Statement { code: code.to_owned(), operands: Vec::new() };
        Verdict { decision, reasons: vec![reason], obligations: Vec::new(), quorum }
    }
}

bindings::export!(AmountLimit with_types_in bindings);
