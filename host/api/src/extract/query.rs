//! Query strings: each parameter once, and without percent-decoding, which no valid value needs.

use crate::error::{ApiError, Code};

/// The value of a parameter, which may be given once.
///
/// # Errors
/// `invalid_request` when it is given twice.
pub fn once<'a>(query: &'a str, name: &str) -> Result<Option<&'a str>, ApiError> {
    let value = |pair: &'a str| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (found == name).then_some(value)
    };
    let mut values = query.split('&').filter_map(value);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(fault(format!("`{name}` must be given once"))),
    }
}

/// The parameter `limit`: the most entries of the answer.
///
/// # Errors
/// `invalid_request` for anything but a whole number from 1 to `max`.
pub fn limit(query: &str, default: u32, max: u32) -> Result<u32, ApiError> {
    let wrong = || fault(format!("`limit` must be a whole number from 1 to {max}"));
    let Some(text) = once(query, "limit")? else { return Ok(default) };
    let limit = digits(text).and_then(|limit| u32::try_from(limit).ok());
    limit.filter(|limit| (1..=max).contains(limit)).ok_or_else(wrong)
}

/// A parameter that is a whole number, in digits only; `None` when it is absent.
///
/// # Errors
/// `invalid_request` for anything else, and above 2^63 - 1, which no count here reaches.
pub fn number(query: &str, name: &str) -> Result<Option<u64>, ApiError> {
    let Some(text) = once(query, name)? else { return Ok(None) };
    digits(text).map(Some).ok_or_else(|| fault(format!("`{name}` must be a whole number")))
}

/// Digits only: `str::parse` alone would accept a sign.
fn digits(text: &str) -> Option<u64> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    u64::try_from(digits.parse::<i64>().ok()?).ok()
}

/// As [`number`], for a required parameter.
///
/// # Errors
/// As [`number`], and `invalid_request` when it is absent.
pub fn whole_number(query: &str, name: &str) -> Result<u64, ApiError> {
    number(query, name)?.ok_or_else(|| fault(format!("`{name}` must be given, as a whole number")))
}

/// A fault of the query string.
#[must_use]
pub fn fault(message: String) -> ApiError {
    ApiError::new(Code::InvalidRequest, message)
}
