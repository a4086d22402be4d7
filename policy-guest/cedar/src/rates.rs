//! Exchange rates, and what a payment is worth by them: `data/rates.json` of the bundle, or the signed document that its schema gives the
//! type `Rates`.
//!
//! ```json
//! { "currency": "EUR", "rates": { "EUR": { "rate": "1", "decimals": 2 }, "JPY": { "rate": "0.0061", "decimals": 0 } } }
//! ```
//!
//! One unit of a currency, of `10^decimals` minor units, is worth `rate` units of `currency`.

use cedar_policy::RestrictedExpression as Value;
use gateway_policy_sdk::{Data, Payment};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

pub(crate) const FILE: &str = "rates.json";

/// Places of a rate after the point.
const RATE_PLACES: u32 = 8;

/// Most decimals of a currency.
const DECIMALS_MAX: u32 = 18;

/// Places of Cedar's decimals.
const VALUE_PLACES: u32 = 4;

/// A table that can be read.
pub(crate) const SAMPLE: &str = r#"{"currency":"EUR","rates":{"EUR":{"rate":"1","decimals":2}}}"#;

/// A table of rates; none without a file or a document.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    currency: String,
    rates: BTreeMap<String, Rate>,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    /// In units of `10^-8`.
    scaled: i128,
    decimals: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    currency: String,
    rates: BTreeMap<String, Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rate: String,
    decimals: u32,
}

impl Rates {
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn read(data: &dyn Data) -> Result<Self, String> {
        let text = data.get(FILE, "");
        text.map_or_else(|| Ok(Self::default()), |text| Self::parse(&text, &format!("data/{FILE}")))
    }

    /// Reads a table; errors begin with `place`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str, place: &str) -> Result<Self, String> {
        let table: Table = serde_json::from_str(text).map_err(|fault| format!("{place}: {fault}"))?;
        let read = |(currency, json)| {
            let written: Option<Written> = serde_json::from_value(json).ok();
            match written.and_then(|written| written.read()) {
                Some(rate) => Ok((currency, rate)),
                None => Err(format!(
                    "{place}: `{currency}` needs a `rate` above 0 with at most {RATE_PLACES} places, and at most \
                     {DECIMALS_MAX} `decimals`"
                )),
            }
        };
        let rates = table.rates.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { currency: table.currency, rates })
    }

    /// The currency in which values are.
    pub(crate) fn currency(&self) -> &str {
        &self.currency
    }

    /// What the payment is worth, rounded up to four places. `None` if its currency has no rate, or no decimal is large enough.
    pub(crate) fn value(&self, payment: &Payment) -> Option<Value> {
        self.decimal(payment).map(Value::new_decimal)
    }

    fn decimal(&self, payment: &Payment) -> Option<String> {
        let Rate { scaled, decimals } = *self.rates.get(&payment.currency)?;
        let worth = i128::from(payment.amount_minor).checked_mul(scaled)?;
        let unit = 10_i128.checked_pow(decimals + RATE_PLACES - VALUE_PLACES)?;
        let rounded = worth.div_euclid(unit) + i128::from(worth.rem_euclid(unit) > 0);
        let places = 10_i128.pow(VALUE_PLACES);
        let sign = if rounded < 0 { "-" } else { "" };
        let (whole, rest) = (rounded.abs() / places, rounded.abs() % places);
        let value = i64::try_from(rounded).ok()?;
        (value != i64::MIN).then(|| format!("{sign}{whole}.{rest:04}"))
    }
}

impl Written {
    fn read(&self) -> Option<Rate> {
        let (whole, places) = self.rate.split_once('.').unwrap_or((&self.rate, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(places) || places.len() > RATE_PLACES as usize {
            return None;
        }
        let padded = format!("{whole}{places:0<8}");
        let scaled = padded.parse::<u64>().ok().filter(|scaled| *scaled > 0)?;
        (self.decimals <= DECIMALS_MAX).then_some(Rate { scaled: scaled.into(), decimals: self.decimals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_policy_sdk::Intent;
    use gateway_policy_sdk::testing::{data, payment};

    fn value(rates: &str, amount_minor: i64) -> Result<Option<String>, String> {
        let file = format!(r#"{{"currency":"EUR","rates":{rates}}}"#);
        let read = Rates::read(&data(&[(FILE, &file)]))?;
        let Intent::Payment(payment) = payment("a", "b", amount_minor).intent else { panic!() };
        Ok(read.decimal(&payment))
    }

    #[test]
    fn payment_is_worth_its_amount_at_the_rate_rounded_up() {
        let at = |rate: &str, decimals: u32, amount| {
            let rates = format!(r#"{{"EUR":{{"rate":"{rate}","decimals":{decimals}}}}}"#);
            value(&rates, amount).unwrap().unwrap_or_default()
        };
        assert_eq!(at("1", 2, 1_000_000), "10000.0000");
        assert_eq!(at("1", 2, 1_000_001), "10000.0100");
        assert_eq!(at("0.00000001", 0, 1), "0.0001");
        assert_eq!(at("0.9213", 2, 1), "0.0093");
        assert_eq!(at("0.0061", 0, 1_639_345), "10000.0045");
        assert_eq!(at("0.9213", 2, -1), "-0.0092");
        assert_eq!(at("1", 18, 1), "0.0001");
        assert_eq!(at("1", 0, i64::MAX), "", "no decimal is so large");
        assert_eq!(value(r#"{"USD":{"rate":"1","decimals":2}}"#, 1), Ok(None), "no rate");
    }

    #[test]
    fn rate_that_is_no_positive_number_is_refused() {
        for rate in ["0", "0.0", "-1", "1.", ".5", "1e3", "", "0.123456789", "99999999999999999999"] {
            let rates = format!(r#"{{"EUR":{{"rate":"{rate}","decimals":2}}}}"#);
            assert!(value(&rates, 1).unwrap_err().contains("`EUR` needs a `rate` above 0"), "{rate}");
        }
        assert!(value(r#"{"EUR":{"rate":"1","decimals":19}}"#, 1).is_err());
        for malformed in
            [r#"{"rate":"1"}"#, r#"{"rate":1,"decimals":2}"#, r#"{"rate":"1","decimals":2,"more":0}"#, "1"]
        {
            let fault = value(&format!(r#"{{"EUR":{malformed}}}"#), 1).unwrap_err();
            assert!(fault.starts_with("data/rates.json: `EUR` needs a `rate` above 0"), "{fault}");
        }
    }
}
