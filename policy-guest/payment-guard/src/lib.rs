//! The default policy: who may be paid and how much, what custody may do, and who has to approve.
//!
//! | condition | for | denied with |
//! |---|---|---|
//! | the account paid is permitted by the deployment, and by the bundle's list if it has one | payments | `recipient_not_permitted` |
//! | the amount is positive | payments | `amount_not_positive` |
//! | the currency has limits, or the data lets others through | payments | `currency_not_permitted` |
//! | the amount is between the limits of its currency | payments | `amount_below_minimum`, `amount_above_maximum` |
//! | with what was admitted in the last hour and day it stays below the limits | admission | `velocity_exceeded` |
//! | the chain, the asset's action, the key operation is listed | custody | `chain_not_permitted`, `action_not_permitted`, `key_operation_not_permitted` |
//! | enough distinct people approved, in the roles asked for | admission, and previews that bring approvals | `quorum_not_reached` |
//! | facts and data can be read | everything | `fact_unreadable`, `data_unreadable` |
//!
//! Every condition is judged, so one answer names all that has to change. What may still come right before admission does
//! not deny: a missing quorum is the obligation `collect_approvals`, a limit that is used up for now `await_limit`. The
//! codes are declared in the bundle's manifest.
//!
//! A kind of operation without a rule is denied. Payments have the deployment's permitted recipients, which are none until
//! somebody names them; custody has `data/custody.json`, without which all of it is denied. Three more files make the policy
//! stricter, and none has to be there: `recipients.json`, `limits.json`, `quorum.json`. Their form is in
//! `host/docs/policy-data.md`. A member that is not in that form denies: a limit with a spelling mistake must not be no limit.

mod custody;
mod document;
mod limits;
mod payment;
mod quorum;
mod quorum_data;
mod roles;
mod rule;
mod velocity;

use gateway_policy_sdk::{Answer, Data, Facts, Intent, Moment, Policy, Request, Verdict};
use quorum_data::QuorumData;
use rule::Rule;

/// See the crate's documentation.
#[derive(Clone, Copy, Debug)]
pub struct PaymentGuard;

impl Policy for PaymentGuard {
    const DESCRIPTION: &'static str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict {
        let mut answer = Answer::new();
        let is_final = is_final(request);
        let quorum_data = QuorumData::read(data).unwrap_or_else(|fault| {
            fault.deny(&mut answer);
            QuorumData::strictest()
        });
        let rule = match &request.intent {
            Intent::Payment(payment) => {
                payment::recipient(&payment.to_account, facts, data, &mut answer);
                if payment::amount(payment, &mut answer) {
                    limits::judge(payment, facts, data, is_final, &mut answer);
                }
                quorum_data.rule_for(payment)
            }
            Intent::AssetAction(action) => custody::asset_action(action, data, &mut answer),
            Intent::KeyChange(change) => custody::key_change(change, data, &mut answer),
        };
        let rule = rule.unwrap_or_else(|fault| {
            fault.deny(&mut answer);
            Rule::strictest()
        });
        let quorum = quorum::judge(request, facts, &quorum_data, &rule, is_final, &mut answer);
        answer.verdict(quorum)
    }
}

/// Whether nothing more can come that would change the answer. A preview that brings approvals asks what the admission
/// would say; one without asks about the submission.
fn is_final(request: &Request) -> bool {
    match request.moment {
        Moment::Submit | Moment::Approval => false,
        Moment::Admission => true,
        Moment::Preview => !request.approvals.is_empty(),
    }
}

#[cfg(test)]
mod tests;
