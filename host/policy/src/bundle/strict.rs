//! JSON read strictly: what is hashed and signed must have one reading.
//!
//! serde alone takes the last of two equal keys, an array where a struct is due, and null for an absent option. Here
//! a file is accepted only when the typed value, written again, is the same value.

use super::BundleError;
use gateway_domain::canonical;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, Serialize};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::fmt;

/// `bytes` as a `T`.
///
/// # Errors
/// [`BundleError::Json`], [`BundleError::DuplicateKey`], [`BundleError::NotStrict`], each naming `file`.
pub(super) fn parse<T: DeserializeOwned + Serialize>(file: &str, bytes: &[u8]) -> Result<T, BundleError> {
    let json =
        |fault: serde_json::Error| BundleError::Json { file: file.to_owned(), fault: fault.to_string() };
    let canonical = |source| BundleError::Canonical { file: file.to_owned(), source };
    let value = parse_unique(file, bytes)?;
    let typed: T = serde_json::from_value(value.clone()).map_err(json)?;
    let again = canonical::to_bytes(&typed).map_err(canonical)?;
    if again != canonical::to_bytes(&value).map_err(canonical)? {
        return Err(BundleError::NotStrict { file: file.to_owned() });
    }
    Ok(typed)
}

/// `bytes` as a value in which every object names a key once, and no number is a floating-point one.
///
/// # Errors
/// [`BundleError::Json`], [`BundleError::DuplicateKey`], each naming `file`.
pub(super) fn parse_unique(file: &str, bytes: &[u8]) -> Result<Value, BundleError> {
    let duplicate = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = Unique(&duplicate).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|fault| match duplicate.take() {
        Some(key) => BundleError::DuplicateKey { file: file.to_owned(), key },
        None => BundleError::Json { file: file.to_owned(), fault: fault.to_string() },
    })
}

/// Reads any value; notes the first key that an object has twice.
#[derive(Clone, Copy)]
struct Unique<'a>(&'a RefCell<Option<String>>);

impl<'de> DeserializeSeed<'de> for Unique<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without floating-point numbers")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if all.contains_key(&key) {
                *self.0.borrow_mut() = Some(key);
                return Err(A::Error::custom("duplicate key"));
            }
            let value = members.next_value_seed(self)?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
