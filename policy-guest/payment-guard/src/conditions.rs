//! What a payment must satisfy by itself.

use gateway_policy_sdk::{Answer, Facts};

const PERMITTED_RECIPIENTS: &str = "deployment.permitted_recipients";

/// Accounts separated by commas; `*` permits any; without the fact nobody is permitted.
pub(crate) fn recipient(account: &str, facts: &dyn Facts, answer: &mut Answer) {
    let permitted = facts.get(PERMITTED_RECIPIENTS).unwrap_or_default();
    if permits(&permitted, account) {
        return answer.because("recipient_permitted", ["account `", account, "`"].concat());
    }
    let fault = if permitted.is_empty() {
        "` is refused: the deployment permits no recipient; add it to "
    } else {
        "` is not among the permitted recipients; add it to "
    };
    answer.deny("recipient_not_permitted", ["account `", account, fault, PERMITTED_RECIPIENTS].concat());
}

fn permits(permitted: &str, account: &str) -> bool {
    permitted.split(',').map(str::trim).any(|entry| entry == "*" || (!entry.is_empty() && entry == account))
}

/// More than nothing.
pub(crate) fn amount(amount_minor: i64, currency: &str, answer: &mut Answer) {
    if amount_minor > 0 {
        answer.because("amount_positive", "");
    } else {
        let amount = amount_minor.to_string();
        answer.deny(
            "amount_not_positive",
            ["amount_minor ", &amount, " ", currency, " must be at least 1"].concat(),
        );
    }
}
