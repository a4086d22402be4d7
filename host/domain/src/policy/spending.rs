//! Payments over time, as facts for policies: for the account and the recipient of a payment, its submitter and its key, how much was
//! paid in the payment's currency within windows that roll, and in each other currency that the policy declares.
//!
//! A window ends at the time of the evaluation and rolls in steps of a minute: a payment counts until the window has passed since the end
//! of the minute of its decision.

use crate::binding::ClientBinding;
use crate::ids::{KeyId, Tenant};
use crate::intent::Payment;
use crate::names::compared;
use crate::time::{DAY_MS, EpochMs};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of the facts that have to be read from the store, which is done only for policies that may read them.
pub const VELOCITY: &str = "velocity.";

/// The steps in which windows roll, milliseconds.
pub const MINUTE_MS: u64 = 60_000;

/// An hour in milliseconds.
pub const HOUR_MS: u64 = 60 * MINUTE_MS;

/// The windows by name, with their lengths in milliseconds; the longest is the last one.
pub const WINDOWS: [(&str, u64); 4] =
    [("1h", HOUR_MS), ("24h", DAY_MS), ("7d", 7 * DAY_MS), ("30d", KEPT_MS)];

/// How long a payment may count: the longest window.
pub const KEPT_MS: u64 = 30 * DAY_MS;

/// Whose payments are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// The account that pays.
    Account,
    /// The account that is paid, by all others.
    Recipient,
    /// The person who submits.
    Submitter,
    /// The key that signs.
    Key,
}

impl Party {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Account, Self::Recipient, Self::Submitter, Self::Key];

    /// The prefix of the facts about it.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Account => "velocity.account.",
            Self::Recipient => "velocity.recipient.",
            Self::Submitter => "velocity.submitter.",
            Self::Key => "velocity.key.",
        }
    }

    /// The names of its facts: for each of [`WINDOWS`], the amount in minor units and the number of payments.
    #[must_use]
    pub const fn facts(self) -> [[&'static str; 2]; 4] {
        macro_rules! facts {
            ($party:literal) => {
                facts!($party; "1h", "24h", "7d", "30d")
            };
            ($party:literal; $($window:literal),*) => {
                [$([concat!("velocity.", $party, ".", $window, ".units"), concat!("velocity.", $party, ".", $window, ".count")]),*]
            };
        }
        match self {
            Self::Account => facts!("account"),
            Self::Recipient => facts!("recipient"),
            Self::Submitter => facts!("submitter"),
            Self::Key => facts!("key"),
        }
    }
}

/// The names of all velocity facts in the currency of the payment.
pub fn names() -> impl Iterator<Item = &'static str> {
    Party::ALL.into_iter().flat_map(|party| party.facts().into_iter().flatten())
}

/// Between the name of a fact in the payment's currency and another currency.
const OF: &str = ".of.";

/// The currency that a velocity fact is about, as `velocity.account.24h.units.of.USD`; `None` for any other fact.
#[must_use]
pub fn currency(fact: &str) -> Option<&str> {
    let (name, currency) = fact.split_once(OF)?;
    let is_currency =
        !currency.is_empty() && currency.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
    (is_currency && names().any(|known| known == name)).then_some(currency)
}

/// Whether a fact is about payments over time.
#[must_use]
pub fn is_fact(name: &str) -> bool {
    name.starts_with(VELOCITY) && (names().any(|known| known == name) || currency(name).is_some())
}

/// The parties of a payment whose payments are summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parties {
    /// The tenant, whose payments count.
    pub tenant: Tenant,
    /// The currency of the payment.
    pub currency: String,
    /// The currencies that the policy declares.
    declared: BTreeSet<String>,
    names: BTreeMap<Party, String>,
}

impl Parties {
    /// All parties of a payment.
    #[must_use]
    pub fn of(tenant: &Tenant, submitter: &ClientBinding, key: KeyId, payment: &Payment) -> Self {
        let names = [
            (Party::Account, payment.from_account.clone()),
            (Party::Recipient, payment.to_account.clone()),
            (Party::Submitter, compared(submitter.person()).into_owned()),
            (Party::Key, key.to_string()),
        ];
        Self::named(tenant.clone(), payment.currency.clone(), names.into())
    }

    /// Parties of these names.
    #[must_use]
    pub const fn named(tenant: Tenant, currency: String, names: BTreeMap<Party, String>) -> Self {
        Self { tenant, currency, declared: BTreeSet::new(), names }
    }

    /// What a policy may read of them: the parties about which it may read a fact, by its prefix, and the currencies that it declares.
    /// `None` without any.
    #[must_use]
    pub fn read_by(mut self, may_read: impl Fn(&str) -> bool, declared: BTreeSet<String>) -> Option<Self> {
        self.names.retain(|party, _| may_read(party.prefix()));
        (!self.names.is_empty()).then_some(Self { declared, ..self })
    }

    /// The currencies in which payments count, each once.
    pub fn currencies(&self) -> impl Iterator<Item = &str> {
        let others = self.declared.iter().filter(|declared| **declared != self.currency);
        [&self.currency].into_iter().chain(others).map(String::as_str)
    }

    /// The name of a party; `None` if its payments are not summed.
    #[must_use]
    pub fn name(&self, party: Party) -> Option<&str> {
        self.names.get(&party).map(String::as_str)
    }

    /// The parties with their names, always in the same order.
    pub fn iter(&self) -> impl Iterator<Item = (Party, &str)> {
        self.names.iter().map(|(party, name)| (*party, name.as_str()))
    }
}

/// The minute of a time, counted from the epoch.
#[must_use]
pub const fn minute(at: EpochMs) -> u64 {
    at.0 / MINUTE_MS
}

/// Payments of a party up to some minute: amounts in their upper and lower 32 bits, since databases fail if a sum exceeds 64 bits, and the
/// number of payments. Two states of the same party are subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the amounts' upper halves.
    pub high: i64,
    /// The sum of the amounts' lower halves.
    pub low: i64,
    /// The number of payments.
    pub n: i64,
}

impl Sum {
    /// One payment. A negative amount counts as zero, so that it cannot make room for others.
    #[must_use]
    pub fn of(amount_minor: i64) -> Self {
        let amount = amount_minor.max(0);
        Self { high: amount >> 32, low: amount & 0xffff_ffff, n: 1 }
    }

    /// What this has more than an earlier state.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            high: self.high.saturating_sub(earlier.high),
            low: self.low.saturating_sub(earlier.low),
            n: self.n.saturating_sub(earlier.n),
        }
    }

    /// The amount. One above the maximum becomes the maximum, which is above any limit.
    #[must_use]
    pub fn units(self) -> u64 {
        let sum = (i128::from(self.high) << 32).saturating_add(i128::from(self.low));
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }

    /// The number of payments.
    #[must_use]
    pub fn count(self) -> u64 {
        u64::try_from(self.n).unwrap_or_default()
    }
}

/// What the parties of a payment paid within each window, as facts by name. Payments that were admitted and have not failed count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, u64>")]
pub struct SpendingTotals(BTreeMap<Cow<'static, str>, u64>);

impl SpendingTotals {
    /// The totals of a party in the payment's currency: its payments in each window, in the order of [`WINDOWS`].
    pub fn insert(&mut self, party: Party, windows: [Sum; 4]) {
        self.insert_as(party, windows, Cow::Borrowed);
    }

    /// As [`insert`](Self::insert), in a currency of these parties: by the names that the facts about it have.
    pub fn insert_of(&mut self, party: Party, parties: &Parties, currency: &str, windows: [Sum; 4]) {
        if currency == parties.currency {
            self.insert(party, windows);
        }
        if parties.declared.contains(currency) {
            self.insert_as(party, windows, |name| Cow::Owned(format!("{name}{OF}{currency}")));
        }
    }

    fn insert_as(
        &mut self,
        party: Party,
        windows: [Sum; 4],
        named: impl Fn(&'static str) -> Cow<'static, str>,
    ) {
        for (names, sum) in party.facts().into_iter().zip(windows) {
            self.0.extend(names.map(&named).into_iter().zip([sum.units(), sum.count()]));
        }
    }

    /// The total with this fact's name; `None` if it was not summed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The totals by the names of their facts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, total)| (name.as_ref(), *total))
    }

    /// The facts, under the contract's names.
    pub fn facts(&self) -> impl Iterator<Item = (Cow<'static, str>, String)> {
        self.0.iter().map(|(name, total)| (name.clone(), total.to_string()))
    }

    /// Each total, or the other one if that is higher.
    #[must_use]
    pub fn raised_to(mut self, other: &Self) -> Self {
        for (name, total) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*total);
        }
        self
    }
}

impl TryFrom<BTreeMap<String, u64>> for SpendingTotals {
    type Error = String;

    fn try_from(totals: BTreeMap<String, u64>) -> Result<Self, String> {
        let known = |(name, total): (String, u64)| {
            let known = names().find(|known| *known == name).map(Cow::Borrowed);
            match known {
                Some(known) => Ok((known, total)),
                None if currency(&name).is_some() => Ok((Cow::Owned(name), total)),
                None => Err(format!("`{name}` is no fact of payments over time")),
            }
        };
        totals.into_iter().map(known).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn raised_totals_have_the_higher_of_each() {
        let totals = |totals: serde_json::Value| serde_json::from_value::<SpendingTotals>(totals).unwrap();
        let one = totals(json!({ "velocity.account.1h.units": 1, "velocity.key.7d.count": 9 }));
        let other = totals(json!({ "velocity.account.1h.units": 9, "velocity.recipient.30d.units": 3 }));
        let expected = json!({
            "velocity.account.1h.units": 9, "velocity.key.7d.count": 9, "velocity.recipient.30d.units": 3,
        });
        assert_eq!(json!(one.clone().raised_to(&other)), expected);
        assert_eq!(json!(other.raised_to(&one)), expected);
    }

    #[test]
    fn totals_have_the_names_of_the_contract() {
        let mut totals = SpendingTotals::default();
        let sum = |amount, n| Sum { n, ..Sum::of(amount) };
        totals.insert(Party::Submitter, [sum(1, 2), sum(3, 4), sum(5, 6), sum(7, 8)]);
        let facts: Vec<_> = totals.facts().map(|(name, value)| format!("{name} = {value}")).collect();
        let expected = [
            "velocity.submitter.1h.count = 2",
            "velocity.submitter.1h.units = 1",
            "velocity.submitter.24h.count = 4",
            "velocity.submitter.24h.units = 3",
            "velocity.submitter.30d.count = 8",
            "velocity.submitter.30d.units = 7",
            "velocity.submitter.7d.count = 6",
            "velocity.submitter.7d.units = 5",
        ];
        assert_eq!(facts, expected);
        for (party, window) in Party::ALL.into_iter().flat_map(|party| WINDOWS.map(|(name, _)| (party, name)))
        {
            let named = format!("{}{window}.units", party.prefix());
            assert!(names().any(|name| name == named), "{named}");
        }
        for unknown in
            ["velocity.account.2h.units", "velocity.account.2h.units.of.USD", "velocity.account.1h.units.of."]
        {
            assert!(serde_json::from_value::<SpendingTotals>(json!({ unknown: 1 })).is_err(), "{unknown}");
            assert!(!is_fact(unknown), "{unknown}");
        }
    }

    #[test]
    fn totals_in_currencies_that_a_policy_declares_have_names_of_their_own() {
        let names = [(Party::Account, "a".to_owned())].into();
        let parties = Parties::named(Tenant("t".into()), "EUR".into(), names);
        let declared = ["EUR", "USD"].map(str::to_owned);
        let parties = parties.read_by(|facts| facts == Party::Account.prefix(), declared.into()).unwrap();
        assert_eq!(parties.currencies().collect::<Vec<_>>(), ["EUR", "USD"]);
        let mut totals = SpendingTotals::default();
        for (currency, amount) in [("EUR", 5), ("USD", 7), ("CHF", 9)] {
            totals.insert_of(Party::Account, &parties, currency, [Sum::of(amount); 4]);
        }
        let units: Vec<_> = totals.iter().filter(|(name, _)| name.contains(".7d.units")).collect();
        let expected = [
            ("velocity.account.7d.units", 5),
            ("velocity.account.7d.units.of.EUR", 5),
            ("velocity.account.7d.units.of.USD", 7),
        ];
        assert_eq!(units, expected);
        assert!(units.iter().all(|(name, _)| is_fact(name)));
        assert_eq!(currency("velocity.account.7d.units.of.USD"), Some("USD"));
        let read_again: SpendingTotals = serde_json::from_value(json!(totals)).unwrap();
        assert_eq!(read_again, totals);
    }

    #[test]
    fn sums_beyond_64_bits_are_above_any_limit() {
        let max = Sum::of(i64::MAX);
        let thrice = Sum { high: max.high * 3, low: max.low * 3, n: 3 };
        assert_eq!((thrice.units(), thrice.count()), (u64::MAX, 3));
        assert_eq!(thrice.since(max).units(), 2 * u64::try_from(i64::MAX).unwrap());
        assert_eq!(Sum::of(-5), Sum { n: 1, ..Sum::default() });
        assert_eq!(Sum::default().since(max).units(), 0);
    }
}
