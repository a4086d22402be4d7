//! The one byte encoding that is ever hashed or signed.
//!
//! RFC 8785 (JCS) over the parsed and re-encoded value, with one rule put before it: every integer is written
//! as a decimal **string**, because JCS prints numbers as IEEE doubles and would let 9007199254740993 and
//! 9007199254740992 hash alike. Floating-point numbers are refused: nothing here has one. Published vectors:
//! `host/domain/vectors/canonical.json`.

use crate::ids::Hex32;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::str::FromStr;

/// A value has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// The value is not representable as JSON.
    #[error("value cannot be written as JSON")]
    NotJson(#[source] serde_json::Error),
    /// A floating-point number, whose text two implementations may write differently.
    #[error("floating-point number `{0}` has no canonical form")]
    Float(String),
}

/// The canonical bytes of a value.
///
/// # Errors
/// [`CanonicalError`] when the value is not JSON or has a floating-point number in it.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    let value = serde_json::to_value(value).map_err(CanonicalError::NotJson)?;
    let mut bytes = Vec::with_capacity(512);
    write_value(&value, &mut bytes)?;
    Ok(bytes)
}

/// `SHA-256(tag || canonical bytes of value)`. The tag keeps two kinds of value from ever hashing alike.
///
/// # Errors
/// As [`to_bytes`].
pub fn digest<T: Serialize + ?Sized>(tag: &str, value: &T) -> Result<Hex32, CanonicalError> {
    Ok(digest_bytes(tag, &to_bytes(value)?))
}

/// `SHA-256(tag || bytes)`, for bytes that are canonical already.
#[must_use]
pub fn digest_bytes(tag: &str, bytes: &[u8]) -> Hex32 {
    Hex32::new(Sha256::new().chain_update(tag).chain_update(bytes).finalize().into())
}

/// Reads an integer from a number or, as canonical bytes have it, from a decimal string. For the integer types
/// of signed statements: `#[serde(deserialize_with = "canonical::integer")]`.
///
/// # Errors
/// The deserializer's, when it is neither or out of range.
pub fn integer<'de, D: Deserializer<'de>, T: FromStr + TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Number(u64),
        Text(String),
    }
    let parsed = match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => T::try_from(number).ok(),
        NumberOrText::Text(text) => text.parse().ok(),
    };
    parsed.ok_or_else(|| de::Error::custom("must be an integer in range"))
}

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) if number.is_f64() => return Err(CanonicalError::Float(number.to_string())),
        Value::Number(number) => {
            out.push(b'"');
            out.extend_from_slice(number.to_string().as_bytes());
            out.push(b'"');
        }
        Value::String(text) => write_string(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => write_object(members, out)?,
    }
    Ok(())
}

/// Members sorted by the UTF-16 code units of their names (RFC 8785, section 3.2.3).
fn write_object(members: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    out.push(b'{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(name, out)?;
        out.push(b':');
        write_value(value, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// serde_json escapes exactly what RFC 8785, section 3.2.2.2, asks for.
fn write_string(text: &str, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    serde_json::to_writer(out, text).map_err(CanonicalError::NotJson)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[derive(serde::Deserialize)]
    struct Vector {
        name: String,
        value: Value,
        canonical: String,
        tag: String,
        sha256: Hex32,
    }

    #[test]
    fn published_vectors_hold() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("../vectors/canonical.json")).unwrap();
        assert!(vectors.len() >= 8);
        for vector in vectors {
            let bytes = to_bytes(&vector.value).unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), vector.canonical, "{}", vector.name);
            assert_eq!(digest(&vector.tag, &vector.value).unwrap(), vector.sha256, "{}", vector.name);
        }
    }

    #[test]
    fn neighbours_above_2_to_the_53_differ() {
        let (a, b) =
            (json!({"amount": 9_007_199_254_740_993_i64}), json!({"amount": 9_007_199_254_740_992_i64}));
        assert_ne!(to_bytes(&a).unwrap(), to_bytes(&b).unwrap());
    }

    #[test]
    fn floats_are_refused() {
        assert!(matches!(to_bytes(&json!([1.5])), Err(CanonicalError::Float(_))));
    }

    fn number_free_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_an_independent_implementation_where_both_apply(value in number_free_json()) {
            let oracle = serde_json_canonicalizer::to_vec(&value).unwrap();
            prop_assert_eq!(to_bytes(&value).unwrap(), oracle);
        }
    }
}
