//! The recipient and the amount of a payment.

use crate::document::{Entry, entry};
use gateway_policy_sdk::{Answer, Data, Facts, Payment};

const PERMITTED_RECIPIENTS: &str = "deployment.permitted_recipients";
const RECIPIENTS_FILE: &str = "recipients.json";
const ACCOUNTS: &str = "accounts";

/// Requires that the deployment permits the recipient and, if the bundle has a list, that this list does too.
pub(crate) fn recipient(account: &str, facts: &dyn Facts, data: &dyn Data, answer: &mut Answer) {
    let permitted = facts.get(PERMITTED_RECIPIENTS).unwrap_or_default();
    let by_deployment = permits(&permitted, account);
    if !by_deployment {
        answer.deny("recipient_not_permitted", &[("account", account), ("place", PERMITTED_RECIPIENTS)]);
    }
    match entry(data, RECIPIENTS_FILE, ACCOUNTS, &[ACCOUNTS], account) {
        Ok(Entry::NoFile | Entry::NoList | Entry::Listed(_)) if by_deployment => {
            answer.because("recipient_permitted", &[("account", account)]);
        }
        Ok(Entry::NoFile | Entry::NoList | Entry::Listed(_)) => {}
        Ok(Entry::Unlisted) => answer.deny(
            "recipient_not_permitted",
            &[("account", account), ("place", "data/recipients.json /accounts")],
        ),
        Err(fault) => fault.deny(answer),
    }
}

/// Whether the comma-separated list permits the account. `*` permits every account; an empty list permits none.
fn permits(permitted: &str, account: &str) -> bool {
    permitted.split(',').map(str::trim).any(|entry| entry == "*" || (!entry.is_empty() && entry == account))
}

/// Whether the amount is positive. Denies if it is not.
pub(crate) fn amount(payment: &Payment, answer: &mut Answer) -> bool {
    let is_positive = payment.amount_minor > 0;
    if is_positive {
        answer.because("amount_positive", &[]);
    } else {
        let amount = payment.amount_minor.to_string();
        answer.deny("amount_not_positive", &[("amount_minor", &amount), ("currency", &payment.currency)]);
    }
    is_positive
}
