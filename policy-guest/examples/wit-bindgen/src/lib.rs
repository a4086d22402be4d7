//! Allows payments up to a fixed amount, with approvals from as many people as the deployment requires.

wit_bindgen::generate!({ path: "../../../wit", world: "policy-wasi" });

use svc::policy::facts;
use svc::policy::types::{Decision, Intent, Quorum, Statement};

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
        let submitter = &request.submitter.subject_id;
        let mut subjects: Vec<String> = Vec::new();
        for approval in request.approvals.iter().filter(|approval| approval.subject_id != *submitter) {
            if !subjects.contains(&approval.subject_id) {
                subjects.push(approval.subject_id.clone());
            }
        }
        // Standard output is discarded.
        println!("{} of {required} approvals", subjects.len());
        let satisfied = subjects.len() >= required as usize;
        let quorum = Quorum { subjects, required, satisfied };
        let reason = Statement { code: code.to_owned(), detail: String::new() };
        Verdict { decision, reasons: vec![reason], obligations: Vec::new(), quorum }
    }
}

export!(AmountLimit);
