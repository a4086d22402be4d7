//! Parses a body into a [`Json`] value.

use super::{DEPTH_MAX, Fault, FaultCode, Json};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;
use zeroize::Zeroizing;

/// Parses a body.
///
/// # Errors
/// [`Fault`] when it is missing or not JSON, has a member twice, or is nested deeper than [`DEPTH_MAX`].
pub(super) fn parse(bytes: &[u8]) -> Result<Json, Fault> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::at("", "is missing").of(FaultCode::NotJson));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = Depth(0).deserialize(&mut deserializer);
    parsed.and_then(|json| deserializer.end().map(|()| json)).map_err(|error| {
        let what = if error.is_data() { "is refused" } else { "is not JSON" };
        Fault::at("", format!("{what}: {error}")).of(FaultCode::NotJson)
    })
}

/// The nesting depth of the value that is parsed.
#[derive(Clone, Copy)]
struct Depth(usize);

impl Depth {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.0 >= DEPTH_MAX {
            return Err(E::custom(format!("nested deeper than {DEPTH_MAX}")));
        }
        Ok(Self(self.0 + 1))
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::OtherNumber, Json::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(Zeroizing::new(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json, A::Error> {
        let deeper = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(deeper)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let deeper = self.deeper()?;
        let (mut members, mut names) = (Vec::new(), BTreeSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("member `{}` appears twice", escaped(&name))));
            }
            let value = map.next_value_seed(deeper)?;
            members.push((name, value));
        }
        Ok(Json::Object(members))
    }
}

/// The first characters of a name, escaped for a message.
fn escaped(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn bodies_that_are_not_strict_json_are_rejected() {
        assert!(fault("").contains("is missing") && fault(" \n").contains("is missing"));
        assert!(fault("{").contains("is not JSON"));
        assert!(fault("{\"a\":1,\"b\":{\"c\":1,\"c\":2}}").contains("is refused: member `c` appears twice"));
        assert!(fault(&"[".repeat(10_000)).contains("nested deeper than 64"));
        assert!(fault(&format!("{}1{}", "[".repeat(65), "]".repeat(65))).contains("nested deeper than 64"));
        assert!(parse(format!("{}1{}", "[".repeat(64), "]".repeat(64)).as_bytes()).is_ok());
        assert!(fault("{} {}").contains("is not JSON"));
        assert!(parse(b"\xff").is_err());
    }

    #[test]
    fn numbers_are_exact_or_marked_as_other() {
        let number = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(number("9223372036854775807"), Json::Integer(i64::MAX));
        assert_eq!(number("9223372036854775808"), Json::OtherNumber);
        assert_eq!(number("1180591620717411303424"), Json::OtherNumber);
        assert_eq!(number("1.0"), Json::OtherNumber);
        assert_eq!(number("1e2"), Json::OtherNumber);
    }
}
