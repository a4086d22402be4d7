//! JSON of a stranger: a name that stands twice in an object would let two readers see two values.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// Whether numbers with a fraction or an exponent are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floats {
    /// They are values like others.
    Taken,
    /// They have no canonical form here (see [`crate::canonical`]).
    Refused,
}

/// The text is not JSON, or says a name twice. Displays as one line with the place.
#[derive(Debug, thiserror::Error)]
#[error("not JSON: {}", said(.duplicate.as_deref(), .fault))]
pub struct NotJson {
    /// The name that an object has twice, if that is what is wrong.
    pub duplicate: Option<String>,
    /// What the parser says, with line and column.
    pub fault: serde_json::Error,
}

fn said(duplicate: Option<&str>, fault: &serde_json::Error) -> String {
    match duplicate {
        Some(name) => format!(
            "the name `{name}` stands twice in an object at line {} column {}",
            fault.line(),
            fault.column()
        ),
        None => fault.to_string(),
    }
}

/// The value of a text, in which every object names a member once.
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

/// Reads any value; notes the first name that an object has twice.
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
            Floats::Taken => "a JSON value",
            Floats::Refused => "JSON without floating-point numbers",
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
            (Floats::Taken, Some(number)) => Ok(Value::Number(number)),
            (Floats::Taken, None) => Err(E::custom("a number is not finite")),
            (Floats::Refused, _) => Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
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
    fn a_name_that_stands_twice_is_refused() {
        let taken = parse(b"{\"a\":[1,{\"b\":null}]}", Floats::Refused).unwrap();
        assert_eq!(taken.to_string(), "{\"a\":[1,{\"b\":null}]}");
        for (text, name) in
            [("{\"a\":1,\"a\":1}", "a"), (r#"{"a":1,"\u0061":2}"#, "a"), ("[{\"b\":{\"c\":1,\"c\":2}}]", "c")]
        {
            let error = parse(text.as_bytes(), Floats::Taken).unwrap_err();
            assert_eq!(error.duplicate.as_deref(), Some(name));
            assert!(
                error.to_string().starts_with(&format!("not JSON: the name `{name}` stands twice")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_json_is_refused_and_floats_where_they_are_not_due() {
        for text in ["", "{", "[1,]", "nul", "{} x", "{}{}", "\u{feff}{}", r#"{"exp":1e400}"#, "\"\\ud800\""]
        {
            assert!(parse(text.as_bytes(), Floats::Taken).is_err(), "{text}");
        }
        assert!(parse(b"\"\xff\"", Floats::Taken).is_err());
        assert!(parse("[".repeat(10_000).as_bytes(), Floats::Taken).is_err());
        assert_eq!(parse(b"[1.5,-1]", Floats::Taken).unwrap().to_string(), "[1.5,-1]");
        assert!(parse(b"[1.5]", Floats::Refused).is_err());
    }
}
