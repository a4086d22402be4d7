//! Limits of one payment, by currency: `data/limits.json`.

use crate::document::{Entry, Read, Unusable, at, entry, members, number, unknown};
use crate::velocity::{self, VELOCITIES};
use gateway_policy_sdk::{Answer, Data, Facts, Payment};

const FILE: &str = "limits.json";
const CURRENCIES: &str = "currencies";
const OTHER_CURRENCIES: &str = "other_currencies";

/// The limits of one currency. `None` is no limit.
#[derive(Default)]
pub(crate) struct Limits {
    per_payment_min: Option<u64>,
    per_payment_max: Option<u64>,
    /// In the order of [`VELOCITIES`].
    pub(crate) velocities: [Option<u64>; VELOCITIES.len()],
}

/// Evaluates a payment whose amount is positive. `is_final`: an exhausted limit over time denies.
pub(crate) fn judge(
    payment: &Payment,
    facts: &dyn Facts,
    data: &dyn Data,
    is_final: bool,
    answer: &mut Answer,
) {
    let place = [FILE, " /", CURRENCIES, "/", &payment.currency].concat();
    let limits = entry(data, FILE, CURRENCIES, &[CURRENCIES, OTHER_CURRENCIES], &payment.currency);
    let limits = limits.and_then(|entry| match entry {
        Entry::Listed(object) => Limits::parse(&place, &object).map(Some),
        Entry::NoFile => Ok(Some(Limits::default())),
        Entry::Unlisted | Entry::NoList => others_pass(data).map(|pass| pass.then(Limits::default)),
    });
    match limits {
        Ok(Some(limits)) => within(&limits, &place, payment, facts, is_final, answer),
        Ok(None) => answer.deny(
            "currency_not_permitted",
            &[("currency", &payment.currency), ("place", &["data/", &place].concat())],
        ),
        Err(fault) => fault.deny(answer),
    }
}

/// Whether currencies that are not listed pass without limits: only if the file says `"allow"`.
fn others_pass(data: &dyn Data) -> Read<bool> {
    match data.get(FILE, "/other_currencies").as_deref() {
        Some("allow") => Ok(true),
        Some("deny") => Ok(false),
        Some(other) => Err(Unusable::new(at(FILE, OTHER_CURRENCIES), "\"allow\" or \"deny\"", other)),
        None => Ok(false),
    }
}

fn within(
    limits: &Limits,
    place: &str,
    payment: &Payment,
    facts: &dyn Facts,
    is_final: bool,
    answer: &mut Answer,
) {
    let amount_minor = payment.amount_minor.unsigned_abs();
    let is_in_range = in_range(limits, place, amount_minor, &payment.currency, answer);
    let is_in_time = velocity::judge(limits, place, payment, facts, is_final, answer);
    if is_in_range && is_in_time && !limits.is_empty() {
        answer.because("within_limits", &[("place", &["data/", place].concat())]);
    }
}

fn in_range(limits: &Limits, place: &str, amount_minor: u64, currency: &str, answer: &mut Answer) -> bool {
    let mut deny = |code: &str, limit: u64, member: &str| {
        let (amount, limit) = (amount_minor.to_string(), limit.to_string());
        let place = ["data/", place, "/", member].concat();
        let operands =
            [("amount_minor", &*amount), ("currency", currency), ("limit", &limit), ("place", &place)];
        answer.deny(code, &operands);
        false
    };
    match (limits.per_payment_min, limits.per_payment_max) {
        (Some(min), _) if amount_minor < min => deny("amount_below_minimum", min, "per_payment_min"),
        (_, Some(max)) if amount_minor > max => deny("amount_above_maximum", max, "per_payment_max"),
        _ => true,
    }
}

impl Limits {
    fn parse(place: &str, object: &str) -> Read<Self> {
        let mut limits = Self::default();
        for (member, value) in members(place, object)? {
            let Some(limit) = limits.named(&member) else { return Err(unknown(place, &member, value)) };
            *limit = Some(number(place, &member, value)?);
        }
        Ok(limits)
    }

    fn named(&mut self, member: &str) -> Option<&mut Option<u64>> {
        match member {
            "per_payment_min" => Some(&mut self.per_payment_min),
            "per_payment_max" => Some(&mut self.per_payment_max),
            _ => self
                .velocities
                .iter_mut()
                .zip(&VELOCITIES)
                .find(|(_, it)| it.member == member)
                .map(|(limit, _)| limit),
        }
    }

    fn is_empty(&self) -> bool {
        let alone = [self.per_payment_min, self.per_payment_max];
        alone.iter().chain(&self.velocities).all(Option::is_none)
    }
}
