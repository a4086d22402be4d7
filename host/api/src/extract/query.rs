//! Query strings. A parameter may be given once. Values are not percent-decoded, except for slashes: no other valid value needs it.

use crate::error::{ApiError, Code};

/// The value of a parameter; `None` when it is absent.
pub fn once<'a>(query: &'a str, name: &str) -> Result<Option<&'a str>, ApiError> {
    let value = |pair: &'a str| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (found == name).then_some(value)
    };
    let mut values = query.split('&').filter_map(value);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(invalid_query(format!("`{name}` must be given once"))),
    }
}

/// As [`once`], for a value with slashes, which some clients percent-encode.
pub fn once_with_slashes(query: &str, name: &str) -> Result<Option<String>, ApiError> {
    Ok(once(query, name)?.map(|value| value.replace("%2F", "/").replace("%2f", "/")))
}

/// The parameter `limit`: the maximum number of entries in the answer.
pub fn limit(query: &str, default: u32, max: u32) -> Result<u32, ApiError> {
    let wrong = || invalid_query(format!("`limit` must be a whole number from 1 to {max}"));
    let Some(text) = once(query, "limit")? else { return Ok(default) };
    let limit = digits(text).and_then(|limit| u32::try_from(limit).ok());
    limit.filter(|limit| (1..=max).contains(limit)).ok_or_else(wrong)
}

/// An optional parameter that is a whole number, in digits only.
///
/// # Errors
/// `invalid_request` for anything else, for a number above 2^63 - 1, and when it is given twice.
pub fn optional_number(query: &str, name: &str) -> Result<Option<u64>, ApiError> {
    let Some(text) = once(query, name)? else { return Ok(None) };
    digits(text).map(Some).ok_or_else(|| invalid_query(format!("`{name}` must be a whole number")))
}

/// Digits only: `str::parse` alone would accept a sign.
pub fn digits(text: &str) -> Option<u64> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    u64::try_from(digits.parse::<i64>().ok()?).ok()
}

/// A value that is one of some words.
pub fn word<T: Copy>(
    name: &str,
    text: &str,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Result<T, ApiError> {
    let word = all.iter().copied().find(|word| as_str(*word) == text);
    word.ok_or_else(|| {
        let allowed: Vec<_> = all.iter().map(|word| format!("`{}`", as_str(*word))).collect();
        invalid_query(format!("`{name}` must be one of {}", allowed.join(", ")))
    })
}

/// As [`optional_number`], for a required parameter.
pub fn required_number(query: &str, name: &str) -> Result<u64, ApiError> {
    optional_number(query, name)?
        .ok_or_else(|| invalid_query(format!("`{name}` must be given, as a whole number")))
}

/// The error `invalid_request`.
#[must_use]
pub fn invalid_query(message: String) -> ApiError {
    ApiError::new(Code::InvalidRequest, message)
}
