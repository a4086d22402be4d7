//! What was paid lately, as policies may ask for it.

/// What begins so is read from the store, and only for a policy that may ask for it.
pub const VELOCITY: &str = "velocity.";

/// The shorter of the two windows, milliseconds. Both roll: they end at the instant of the question.
pub const HOUR_MS: u64 = 3_600_000;

/// The longer of the two windows, milliseconds.
pub const DAY_MS: u64 = 86_400_000;

/// Payments of one tenant in one currency that were admitted within a window and did not fail since. Amounts are minor
/// units; one that was not positive counts as nothing, so that it never makes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// From the account, in the last hour.
    pub account_hour_minor: u64,
    /// From the account, in the last day.
    pub account_day_minor: u64,
    /// How many payments that were.
    pub account_day_count: u64,
    /// To the recipient from whatever account, in the last hour.
    pub recipient_hour_minor: u64,
    /// To the recipient from whatever account, in the last day.
    pub recipient_day_minor: u64,
}

impl Spent {
    /// The facts of it, as the contract names them.
    pub(super) fn facts(&self) -> [(&'static str, String); 5] {
        [
            ("velocity.account.day_count", self.account_day_count.to_string()),
            ("velocity.account.day_minor", self.account_day_minor.to_string()),
            ("velocity.account.hour_minor", self.account_hour_minor.to_string()),
            ("velocity.recipient.day_minor", self.recipient_day_minor.to_string()),
            ("velocity.recipient.hour_minor", self.recipient_hour_minor.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sum_is_the_fact_of_its_name() {
        let spent = Spent {
            account_hour_minor: 1,
            account_day_minor: 2,
            account_day_count: 3,
            recipient_hour_minor: 4,
            recipient_day_minor: 5,
        };
        let facts = spent.facts().map(|(name, value)| format!("{name} = {value}"));
        let expected = [
            "velocity.account.day_count = 3",
            "velocity.account.day_minor = 2",
            "velocity.account.hour_minor = 1",
            "velocity.recipient.day_minor = 5",
            "velocity.recipient.hour_minor = 4",
        ];
        assert_eq!(facts, expected);
    }
}
