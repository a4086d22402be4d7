//! Recent payments, as facts for policies.

use serde::{Deserialize, Serialize};

/// The prefix of the facts that have to be read from the store, which is done only for policies that may read them.
pub const VELOCITY: &str = "velocity.";

/// The shorter window, milliseconds; the longer one is a day. Both roll: they end at the time of the evaluation.
pub const HOUR_MS: u64 = 3_600_000;

/// A sum of amounts, from the sums of their upper and lower 32 bits: databases fail if a sum exceeds 64 bits. One above the maximum becomes
/// the maximum, which is above any limit.
#[must_use]
pub fn sum_of_halves(high: i64, low: i64) -> u64 {
    let sum = (i128::from(high) << 32).saturating_add(i128::from(low));
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Payments of one tenant in one currency that were admitted within a window and have not failed. Amounts are in minor
/// units; a negative amount counts as zero, so that it cannot make room for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpendingTotals {
    /// The amount from the account in the last hour.
    pub account_hour_minor: u64,
    /// The amount from the account in the last day.
    pub account_day_minor: u64,
    /// The number of payments from the account in the last day.
    pub account_day_count: u64,
    /// The amount to the recipient, from all accounts, in the last hour.
    pub recipient_hour_minor: u64,
    /// The amount to the recipient, from all accounts, in the last day.
    pub recipient_day_minor: u64,
}

impl SpendingTotals {
    /// The facts, under the contract's names.
    #[must_use]
    pub fn facts(&self) -> [(&'static str, String); 5] {
        [
            ("velocity.account.day_count", self.account_day_count.to_string()),
            ("velocity.account.day_minor", self.account_day_minor.to_string()),
            ("velocity.account.hour_minor", self.account_hour_minor.to_string()),
            ("velocity.recipient.day_minor", self.recipient_day_minor.to_string()),
            ("velocity.recipient.hour_minor", self.recipient_hour_minor.to_string()),
        ]
    }

    /// Each total, or the other one if that is higher.
    #[must_use]
    pub fn raised_to(self, other: Self) -> Self {
        Self {
            account_hour_minor: self.account_hour_minor.max(other.account_hour_minor),
            account_day_minor: self.account_day_minor.max(other.account_day_minor),
            account_day_count: self.account_day_count.max(other.account_day_count),
            recipient_hour_minor: self.recipient_hour_minor.max(other.recipient_hour_minor),
            recipient_day_minor: self.recipient_day_minor.max(other.recipient_day_minor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_totals_have_the_higher_of_each() {
        let totals = |numbers: [u64; 5]| {
            let [
                account_hour_minor,
                account_day_minor,
                account_day_count,
                recipient_hour_minor,
                recipient_day_minor,
            ] = numbers;
            SpendingTotals {
                account_hour_minor,
                account_day_minor,
                account_day_count,
                recipient_hour_minor,
                recipient_day_minor,
            }
        };
        let (one, other) = (totals([1, 9, 3, 9, 5]), totals([9, 2, 9, 4, 9]));
        assert_eq!(one.raised_to(other), totals([9; 5]));
        assert_eq!(other.raised_to(one), totals([9; 5]));
    }

    #[test]
    fn each_total_has_its_fact_name() {
        let totals = SpendingTotals {
            account_hour_minor: 1,
            account_day_minor: 2,
            account_day_count: 3,
            recipient_hour_minor: 4,
            recipient_day_minor: 5,
        };
        let facts = totals.facts().map(|(name, value)| format!("{name} = {value}"));
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
