//! The default policy: who may be paid and how much, what custody may do, and who has to approve.
//!
//! | condition | for | denied with |
//! |---|---|---|
//! | the recipient is permitted by the deployment, and by the bundle's list if it has one | payments | `recipient_not_permitted` |
//! | the amount is positive | payments | `amount_not_positive` |
//! | the currency has limits, or `limits.json` permits other currencies | payments | `currency_not_permitted` |
//! | the amount is within the limits of its currency | payments | `amount_below_minimum`, `amount_above_maximum` |
//! | the sums admitted in the last hour and 24 hours stay within the limits | admission, and previews with approvals; at any time if this payment alone exceeds a limit | `velocity_exceeded` |
//! | the chain and the asset's action, or the key operation, are listed | custody | `chain_not_permitted`, `action_not_permitted`, `key_operation_not_permitted` |
//! | enough distinct people approved, in the required roles | admission, and previews with approvals | `quorum_not_reached` |
//! | facts and data can be read | everything | `fact_unreadable`, `data_unreadable` |
//!
//! All conditions are evaluated, so that one verdict names everything that has to change. A condition that may still be met
//! before admission does not deny: a missing quorum is the obligation `collect_approvals`, an exhausted limit over time is
//! `await_limit`. The bundle's manifest declares all codes.
//!
//! Operations that no rule permits are denied. Payments need the deployment's list of permitted recipients, which is empty
//! by default; custody operations need `data/custody.json`. Three optional files make the policy stricter: `recipients.json`,
//! `limits.json` and `quorum.json`. `host/docs/policy-data.md` describes their form. An unknown or malformed member denies:
//! a misspelt limit must not mean that there is no limit.

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

/// Whether the verdict is final: no later approval can change it. A preview with approvals asks about the admission, a
/// preview without approvals asks about the submission.
fn is_final(request: &Request) -> bool {
    match request.moment {
        Moment::Submit | Moment::Approval => false,
        Moment::Admission => true,
        Moment::Preview => !request.approvals.is_empty(),
    }
}

#[cfg(test)]
mod tests;
