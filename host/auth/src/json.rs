//! JSON in which no member stands twice: of two, one reader would take the first and another the last.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The value, unless it is no JSON or has a member twice, however deep. Nesting is limited by `serde_json` itself.
pub(crate) fn parse(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Unique>(bytes).ok().map(|unique| unique.0)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Unique(element)) = elements.next_element()? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Unique(value))) = members.next_entry::<String, Unique>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member appears twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_read_is_what_stands_there() {
        let text = r#"{"a":[1,-2,2.5,true,null,"\u00e9"],"b":{"a":{}}}"#;
        assert_eq!(parse(text.as_bytes()), Some(json!({"a":[1,-2,2.5,true,null,"é"],"b":{"a":{}}})));
    }

    #[test]
    fn a_member_twice_is_no_json_at_any_depth() {
        for wrong in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"b":[{"a":1,"a":2}]}"#,
            "{}{}",
            "{",
            "",
            "\u{feff}{}",
            r#"{"exp":1e400}"#,
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(parse("[".repeat(10_000).as_bytes()), None);
        assert_eq!(parse(b"\"\xff\""), None);
    }
}
