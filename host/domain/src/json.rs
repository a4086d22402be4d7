//! Strict JSON: duplicate member names are rejected, because different parsers keep different values.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// Whether numbers with a fraction or an exponent are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floats {
    /// They are accepted.
    Allowed,
    /// They are an error, because they have no canonical form (see [`crate::canonical`]).
    Rejected,
}

/// The text is not JSON, or has a duplicate member. Displays as one line with line and column.
#[derive(Debug, thiserror::Error)]
#[error("not JSON: {}", describe(.duplicate.as_deref(), .fault))]
pub struct NotJson {
    /// The duplicate name, if that is the fault.
    pub duplicate: Option<String>,
    /// The parser's error, with line and column.
    pub fault: serde_json::Error,
}

fn describe(duplicate: Option<&str>, fault: &serde_json::Error) -> String {
    match duplicate {
        Some(name) => format!(
            "the name `{name}` appears twice in an object at line {} column {}",
            fault.line(),
            fault.column()
        ),
        None => fault.to_string(),
    }
}

/// Parses a value whose objects have no duplicate members.
///
/// # Errors
/// [`NotJson`] with line and column.
pub fn parse(text: &[u8], floats: Floats) -> Result<Value, NotJson> {
    let duplicate = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let strict = Strict { floats, duplicate: &duplicate };
    let parsed = strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|fault| NotJson { duplicate: duplicate.take(), fault })
}

/// Deserializes any value. Stops at the first duplicate name, and stores it.
#[derive(Clone, Copy)]
struct Strict<'a> {
    floats: Floats,
    duplicate: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.floats {
            Floats::Allowed => "a JSON value",
            Floats::Rejected => "JSON without floating-point numbers",
        })
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

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match (self.floats, Number::from_f64(value)) {
            (Floats::Allowed, Some(number)) => Ok(Value::Number(number)),
            (Floats::Allowed, None) => Err(E::custom("a number is not finite")),
            (Floats::Rejected, _) => Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
        }
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
        while let Some(name) = members.next_key::<String>()? {
            if all.contains_key(&name) {
                *self.duplicate.borrow_mut() = Some(name);
                return Err(A::Error::custom("duplicate key"));
            }
            let value = members.next_value_seed(self)?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_member_is_rejected() {
        let taken = parse(b"{\"a\":[1,{\"b\":null}]}", Floats::Rejected).unwrap();
        assert_eq!(taken.to_string(), "{\"a\":[1,{\"b\":null}]}");
        for (text, name) in
            [("{\"a\":1,\"a\":1}", "a"), (r#"{"a":1,"\u0061":2}"#, "a"), ("[{\"b\":{\"c\":1,\"c\":2}}]", "c")]
        {
            let error = parse(text.as_bytes(), Floats::Allowed).unwrap_err();
            assert_eq!(error.duplicate.as_deref(), Some(name));
            assert!(
                error.to_string().starts_with(&format!("not JSON: the name `{name}` appears twice")),
                "{error}"
            );
        }
    }

    #[test]
    fn invalid_json_is_rejected_and_floats_only_on_request() {
        for text in ["", "{", "[1,]", "nul", "{} x", "{}{}", "\u{feff}{}", r#"{"exp":1e400}"#, "\"\\ud800\""]
        {
            assert!(parse(text.as_bytes(), Floats::Allowed).is_err(), "{text}");
        }
        assert!(parse(b"\"\xff\"", Floats::Allowed).is_err());
        assert!(parse("[".repeat(10_000).as_bytes(), Floats::Allowed).is_err());
        assert_eq!(parse(b"[1.5,-1]", Floats::Allowed).unwrap().to_string(), "[1.5,-1]");
        assert!(parse(b"[1.5]", Floats::Rejected).is_err());
    }
}
