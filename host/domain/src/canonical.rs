//! The canonical encoding, in which values are hashed and signed.
//!
//! It is RFC 8785 (JCS), except that every integer is written as a decimal **string**: JCS prints numbers as IEEE
//! doubles, so 9007199254740993 and 9007199254740992 would hash alike. Floating-point numbers are an error; no value
//! here has one. Test vectors: `host/domain/vectors/canonical.json`.

mod writer;

pub use writer::CanonicalError;

use crate::hex_bytes::Hex32;
use serde::{Deserialize, Deserializer, Serialize, de};
use sha2::{Digest, Sha256};
use std::str::FromStr;
use writer::Writer;

/// The canonical bytes of a value.
///
/// # Errors
/// [`CanonicalError`] when the value is not JSON or has a floating-point number.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    Writer::lend(|writer| {
        value.serialize(&mut *writer)?;
        Ok(writer.out.clone())
    })
}

/// `SHA-256(tag || canonical bytes of value)`. The domain tag keeps values of different kinds from hashing alike.
pub fn digest<T: Serialize + ?Sized>(tag: &str, value: &T) -> Result<Hex32, CanonicalError> {
    Writer::lend(|writer| {
        value.serialize(&mut *writer)?;
        Ok(digest_bytes(tag, &writer.out))
    })
}

/// `SHA-256(tag || bytes)`, for bytes that are already canonical.
#[must_use]
pub fn digest_bytes(tag: &str, bytes: &[u8]) -> Hex32 {
    Hex32::new(Sha256::new().chain_update(tag).chain_update(bytes).finalize().into())
}

/// Deserializes an integer that is not negative, from a number or, as in canonical bytes, from a decimal string. For
/// the integers of signed statements: `#[serde(deserialize_with = "canonical::integer")]`.
///
/// # Errors
/// The deserializer's error when it is neither, or out of range.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::ser;
    use serde_json::{Value, json};

    #[derive(serde::Deserialize)]
    struct Vector {
        name: String,
        value: Value,
        canonical: String,
        tag: String,
        sha256: Hex32,
    }

    #[test]
    fn published_vectors_agree() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("../vectors/canonical.json")).unwrap();
        assert!(vectors.len() >= 8);
        for vector in vectors {
            let bytes = to_bytes(&vector.value).unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), vector.canonical, "{}", vector.name);
            assert_eq!(digest(&vector.tag, &vector.value).unwrap(), vector.sha256, "{}", vector.name);
        }
    }

    #[test]
    fn adjacent_integers_above_2_to_the_53_differ() {
        let (a, b) =
            (json!({"amount": 9_007_199_254_740_993_i64}), json!({"amount": 9_007_199_254_740_992_i64}));
        assert_ne!(to_bytes(&a).unwrap(), to_bytes(&b).unwrap());
    }

    #[test]
    fn floats_are_rejected() {
        assert!(matches!(to_bytes(&json!([1.5])), Err(CanonicalError::Float(_))));
    }

    /// Serde shapes that `serde_json::Value` does not have.
    #[test]
    fn typed_values_are_written_like_their_json() {
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Shape {
            Unit,
            New(u8),
            Pair(u8, String),
            Named { b: i64, a: Option<char> },
        }
        let shapes = [
            Shape::Unit,
            Shape::New(1),
            Shape::Pair(2, "\u{e9}".into()),
            Shape::Named { b: -1, a: Some('x') },
        ];
        let typed = (shapes, std::collections::BTreeMap::from([(10, "b"), (9, "a")]), ((), true, [0_u16; 2]));
        let value = serde_json::to_value(&typed).unwrap();
        assert_eq!(to_bytes(&typed).unwrap(), to_bytes(&value).unwrap());
    }

    #[test]
    fn name_sorts_before_longer_names_with_it_as_prefix() {
        let names = json!({"a!": 1, "a": 2, "a\"": 3, "aa": 4, "": 5, "\u{1F600}": 6, "\u{fb33}": 7});
        let text = String::from_utf8(to_bytes(&names).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"\":\"5\",\"a\":\"2\",\"a!\":\"1\",\"a\\\"\":\"3\",\"aa\":\"4\",\"\u{1F600}\":\"6\",\"\u{fb33}\":\"7\"}"
        );
    }

    #[test]
    fn member_without_a_value_is_rejected() {
        struct Half;

        impl Serialize for Half {
            fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("whole", "it")?;
                map.serialize_key("half")?;
                map.end()
            }
        }
        assert!(matches!(to_bytes(&[Half]), Err(CanonicalError::NotJson(_))));
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
        fn agrees_with_another_implementation_on_values_without_numbers(value in number_free_json()) {
            let oracle = serde_json_canonicalizer::to_vec(&value).unwrap();
            prop_assert_eq!(to_bytes(&value).unwrap(), oracle);
        }
    }
}
