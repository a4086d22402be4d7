//! Strict JSON: a signed text must have exactly one meaning.
//!
//! serde alone accepts an array for a struct, and null for an absent option. Here a file is accepted only if no object names a
//! key twice, and its typed value serializes to the same JSON value.

use super::BundleError;
use gateway_domain::canonical;
use gateway_domain::json::{self, Floats, NotJson};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Parses JSON strictly.
///
/// # Errors
/// [`BundleError::Json`], [`BundleError::DuplicateKey`], [`BundleError::NotStrict`], each naming `file`.
pub(super) fn parse<T: DeserializeOwned + Serialize>(file: &str, bytes: &[u8]) -> Result<T, BundleError> {
    let not_json =
        |fault: serde_json::Error| BundleError::Json { file: file.to_owned(), fault: fault.to_string() };
    let canonical = |source| BundleError::Canonical { file: file.to_owned(), source };
    let value = parse_unique(file, bytes)?;
    let typed: T = serde_json::from_value(value.clone()).map_err(not_json)?;
    let again = canonical::to_bytes(&typed).map_err(canonical)?;
    if again != canonical::to_bytes(&value).map_err(canonical)? {
        return Err(BundleError::NotStrict { file: file.to_owned() });
    }
    Ok(typed)
}

/// Parses JSON in which no object names a key twice and no number is a floating-point number.
///
/// # Errors
/// [`BundleError::Json`], [`BundleError::DuplicateKey`], each naming `file`.
pub(super) fn parse_unique(file: &str, bytes: &[u8]) -> Result<Value, BundleError> {
    json::parse(bytes, Floats::Rejected).map_err(|NotJson { duplicate, fault }| match duplicate {
        Some(key) => BundleError::DuplicateKey { file: file.to_owned(), key },
        None => BundleError::Json { file: file.to_owned(), fault: fault.to_string() },
    })
}
