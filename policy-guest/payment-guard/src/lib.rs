//! The default policy: permitted recipients, positive amounts, and a quorum of distinct people.
//!
//! | condition | for | denied with |
//! |---|---|---|
//! | the account paid is permitted by the deployment | payments | `recipient_not_permitted` |
//! | the amount is positive | payments | `amount_not_positive` |
//! | enough distinct people approved | admission, and previews that bring approvals | `quorum_not_reached` |
//! | the deployment's facts can be read | everything | `fact_unreadable` |
//!
//! Every condition is judged, so one answer names all that has to change. Before admission a missing quorum does not
//! deny: it is the obligation `collect_approvals`. The codes are declared in `bundles/payment-guard/manifest.json`.

mod conditions;
mod quorum;

use gateway_policy_sdk::{Answer, Data, Facts, Intent, Moment, Policy, Request, Verdict};

/// See the crate's documentation.
#[derive(Clone, Copy, Debug)]
pub struct PaymentGuard;

impl Policy for PaymentGuard {
    const DESCRIPTION: &'static str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

    fn evaluate(request: &Request, facts: &dyn Facts, _data: &dyn Data) -> Verdict {
        let mut answer = Answer::new();
        match &request.intent {
            Intent::Payment(payment) => {
                conditions::recipient(&payment.to_account, facts, &mut answer);
                conditions::amount(payment.amount_minor, &payment.currency, &mut answer);
            }
            Intent::AssetAction(action) => {
                answer.because("custody_intent_permitted", ["asset action ", &action.action].concat());
            }
            Intent::KeyChange(change) => {
                answer.because("custody_intent_permitted", ["key operation ", &change.operation].concat());
            }
        }
        let quorum = quorum::judge(request, facts, must_be_reached(request), &mut answer);
        answer.verdict(quorum)
    }
}

/// A preview that brings approvals asks what the admission would say; one without asks about the submission.
fn must_be_reached(request: &Request) -> bool {
    match request.moment {
        Moment::Submit | Moment::Approval => false,
        Moment::Admission => true,
        Moment::Preview => !request.approvals.is_empty(),
    }
}

#[cfg(test)]
mod tests;
