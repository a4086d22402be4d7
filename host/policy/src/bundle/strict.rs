//! Strict JSON: a signed text must have exactly one meaning.
//!
//! serde alone accepts an array for a struct, and null for an absent option. Here a file is accepted only if no object names a
//! key twice, and its typed value serializes to the same JSON value.

use super::BundleError;
use gateway_domain::json::{self, Floats, NotJson};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

/// Parses JSON strictly.
///
/// # Errors
/// [`BundleError::Json`], [`BundleError::DuplicateKey`], [`BundleError::NotStrict`], each naming `file`.
pub(super) fn parse<T: DeserializeOwned + Serialize>(file: &str, bytes: &[u8]) -> Result<T, BundleError> {
    typed(file, parse_unique(file, bytes)?)
}

/// The typed form of a value that was parsed by [`parse_unique`]. Errors have JSON pointers into it.
pub(super) fn typed<T: DeserializeOwned + Serialize>(file: &str, value: Value) -> Result<T, BundleError> {
    let not_json =
        |fault: serde_json::Error| BundleError::Json { file: file.to_owned(), fault: fault.to_string() };
    // The path is followed only for the error.
    let typed = T::deserialize(&value).map_err(|_| place_of_fault::<T>(file, &value))?;
    let again = serde_json::to_value(&typed).map_err(not_json)?;
    match difference(&value, &again) {
        Some(pointer) => Err(BundleError::NotStrict { file: file.to_owned(), pointer }),
        None => Ok(typed),
    }
}

/// Why the value is not one of this type, and where.
fn place_of_fault<T: DeserializeOwned>(file: &str, value: &Value) -> BundleError {
    let fault = match serde_path_to_error::deserialize::<_, T>(value) {
        Ok(_) => String::new(),
        Err(error) => {
            let is_named = |segment: &&Segment| !matches!(segment, Segment::Unknown);
            let segments = error.path().iter().filter(is_named);
            let pointer: String = segments.map(|segment| format!("/{segment}")).collect();
            let at = if pointer.is_empty() { pointer } else { format!("`{pointer}`: ") };
            format!("{at}{}", error.inner())
        }
    };
    BundleError::Json { file: file.to_owned(), fault }
}

/// The JSON pointer of the first member that two values do not share in the same form.
fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let within = |(name, value): (&String, &Value)| {
                let found = match other.get(name) {
                    Some(same) => difference(value, same)?,
                    None => String::new(),
                };
                Some(format!("/{}{found}", name.replace('~', "~0").replace('/', "~1")))
            };
            let missing =
                || other.keys().find(|name| !one.contains_key(*name)).map(|name| format!("/{name}"));
            one.iter().find_map(within).or_else(missing)
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (one, other))| Some(format!("/{index}{}", difference(one, other)?)))
        }
        (one, other) => (one != other).then(String::new),
    }
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
