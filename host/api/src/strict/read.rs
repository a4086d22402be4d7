//! [`Json`] to a request shape: serde does the matching, this says where it failed and in whose words.

use super::limits::UNKNOWN_NAMED_MAX;
use super::{ARRAY_ENTRIES_MAX, Fault, Json, TEXT_BYTES_MAX};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::cell::RefCell;
use std::fmt;

/// A request shape, and the members of the body it does not have.
#[derive(Debug)]
pub struct Reading<T> {
    /// The shape.
    pub value: T,
    /// JSON pointers, at most a few.
    pub unknown: Vec<String>,
}

/// Reads a shape.
///
/// # Errors
/// [`Fault`] at the first member that does not fit.
pub fn read<'a, T: de::Deserialize<'a>>(json: &'a Json) -> Result<Reading<T>, Fault> {
    let unknown = RefCell::new(Vec::new());
    let value = T::deserialize(Cursor { json, place: Place::Root, unknown: &unknown })?;
    Ok(Reading { value, unknown: unknown.into_inner() })
}

/// Before a pointer from where a visitor is, which it does not know: no pointer has it.
const UNPLACED: char = '\0';

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::at("", message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::at(format!("{UNPLACED}/{field}"), "is required")
    }
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Entry(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            // RFC 6901, section 3: `~` and `/` are escaped.
            Self::Member(parent, name) => {
                write!(f, "{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            Self::Entry(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

#[derive(Clone, Copy)]
struct Cursor<'a, 'p> {
    json: &'a Json,
    place: Place<'p>,
    unknown: &'p RefCell<Vec<String>>,
}

impl Cursor<'_, '_> {
    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::at(self.place.to_string(), message)
    }

    fn must_be(&self, what: &str) -> Fault {
        self.fault(format!("must be {what}, not {}", self.json.kind()))
    }

    fn integer<T: TryFrom<i64>>(&self, min: impl fmt::Display, max: impl fmt::Display) -> Result<T, Fault> {
        let number = if let Json::Integer(number) = self.json { T::try_from(*number).ok() } else { None };
        number.ok_or_else(|| match self.json {
            Json::Integer(_) | Json::OtherNumber => {
                self.fault(format!("must be an integer from {min} to {max}"))
            }
            Json::Null | Json::Bool(_) | Json::Text(_) | Json::Array(_) | Json::Object(_) => {
                self.must_be(&format!("an integer from {min} to {max}"))
            }
        })
    }

    /// Puts a place on a fault that a visitor made without knowing where it was.
    fn placed(&self, fault: Fault) -> Fault {
        let place = self.place.to_string();
        if let Some(relative) = fault.pointer.strip_prefix(UNPLACED) {
            Fault::at(place + relative, fault.message)
        } else if fault.pointer.starts_with(&place) {
            fault
        } else {
            Fault::at(place + &fault.pointer, fault.message)
        }
    }
}

macro_rules! integers {
    ($($method:ident, $visit:ident, $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.integer::<$type>(<$type>::MIN, <$type>::MAX)?).map_err(|fault: Fault| self.placed(fault))
        }
    )*};
}

impl<'de> Deserializer<'de> for Cursor<'de, '_> {
    type Error = Fault;

    integers! {
        deserialize_i64, visit_i64, i64;
        deserialize_u16, visit_u16, u16;
        deserialize_u32, visit_u32, u32;
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(self.fault("has no known shape"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Bool(value) = self.json else { return Err(self.must_be("a boolean")) };
        visitor.visit_bool(*value)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Text(text) = self.json else { return Err(self.must_be("a string")) };
        if text.len() > TEXT_BYTES_MAX {
            return Err(self.fault(format!("must be at most {TEXT_BYTES_MAX} bytes, not {}", text.len())));
        }
        visitor.visit_borrowed_str(text).map_err(|fault: Fault| self.placed(fault))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if *self.json == Json::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Array(items) = self.json else { return Err(self.must_be("an array")) };
        if items.len() > ARRAY_ENTRIES_MAX {
            return Err(
                self.fault(format!("must have at most {ARRAY_ENTRIES_MAX} entries, not {}", items.len()))
            );
        }
        visitor.visit_seq(Entries { cursor: self, items: items.iter().enumerate() })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Object(members) = self.json else { return Err(self.must_be("an object")) };
        if members.len() > ARRAY_ENTRIES_MAX {
            let n_members = members.len();
            return Err(self.fault(format!("must have at most {ARRAY_ENTRIES_MAX} members, not {n_members}")));
        }
        let members = Members { cursor: self, members: members.iter(), current: None };
        visitor.visit_map(members).map_err(|fault| self.placed(fault))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let allowed = || variants.iter().map(|variant| format!("`{variant}`")).collect::<Vec<_>>().join(", ");
        let Json::Text(text) = self.json else { return Err(self.must_be(&format!("one of {}", allowed()))) };
        if !variants.contains(&text.as_str()) {
            return Err(self.fault(format!("must be one of {}", allowed())));
        }
        visitor.visit_enum(text.as_str().into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut unknown = self.unknown.borrow_mut();
        if unknown.len() < UNKNOWN_NAMED_MAX {
            unknown.push(self.place.to_string());
        }
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct Entries<'a, 'p> {
    cursor: Cursor<'a, 'p>,
    items: std::iter::Enumerate<std::slice::Iter<'a, Json>>,
}

impl<'de> SeqAccess<'de> for Entries<'de, '_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((index, json)) = self.items.next() else { return Ok(None) };
        let place = Place::Entry(&self.cursor.place, index);
        let cursor = Cursor { json, place, unknown: self.cursor.unknown };
        seed.deserialize(cursor).map(Some).map_err(|fault| cursor.placed(fault))
    }
}

struct Members<'a, 'p> {
    cursor: Cursor<'a, 'p>,
    members: std::slice::Iter<'a, (String, Json)>,
    current: Option<&'a (String, Json)>,
}

impl<'de> MapAccess<'de> for Members<'de, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.current = self.members.next();
        let Some((name, _)) = self.current else { return Ok(None) };
        seed.deserialize(de::value::BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some((name, json)) = self.current.take() else { return Err(self.cursor.fault("has no value")) };
        let place = Place::Member(&self.cursor.place, name);
        let cursor = Cursor { json, place, unknown: self.cursor.unknown };
        seed.deserialize(cursor).map_err(|fault| cursor.placed(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Shape {
        name: String,
        amount: i64,
        indices: Vec<u16>,
        inner: Option<Inner>,
        mode: Option<Mode>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Inner {
        deep: gateway_domain::ids::Hex32,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Manual,
        Automatic,
    }

    fn shape(text: &str) -> Result<Reading<Shape>, String> {
        read(&parse(text.as_bytes()).unwrap()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn unknown_members_are_found_at_any_depth() {
        let hex = "00".repeat(32);
        let text = format!(
            r#"{{"name":"a","amount":1,"indices":[1],"x/y":[1e99],"inner":{{"deep":"{hex}","z":{{}}}},"mode":"manual"}}"#
        );
        let reading = shape(&text).unwrap();
        assert_eq!(reading.unknown, ["/x~1y", "/inner/z"]);
        assert_eq!((reading.value.name.as_str(), reading.value.amount), ("a", 1));
        assert_eq!(reading.value.indices, [1]);
        assert!(matches!(reading.value.mode, Some(Mode::Manual)));
        assert!(matches!(reading.value.inner, Some(Inner { deep }) if deep.to_string() == hex));
        assert!(
            shape(r#"{"name":"a","amount":1,"indices":[],"mode":"automatic"}"#)
                .is_ok_and(|reading| matches!(reading.value.mode, Some(Mode::Automatic)))
        );
    }

    #[test]
    fn every_fault_has_its_place() {
        let cases = [
            ("[]", "the body must be an object, not an array"),
            (r#"{"amount":1,"indices":[]}"#, "`/name` is required"),
            (r#"{"name":7,"amount":1,"indices":[]}"#, "`/name` must be a string, not a number"),
            (
                r#"{"name":"a","amount":1180591620717411303424,"indices":[]}"#,
                "`/amount` must be an integer from -9223372036854775808 to 9223372036854775807",
            ),
            (
                r#"{"name":"a","amount":1,"indices":[1,-1]}"#,
                "`/indices/1` must be an integer from 0 to 65535",
            ),
            (r#"{"name":"a","amount":1,"indices":{}}"#, "`/indices` must be an array, not an object"),
            (
                r#"{"name":"a","amount":1,"indices":[],"inner":{"deep":"zz"}}"#,
                "`/inner/deep` must be 64 lowercase hexadecimal characters",
            ),
            (
                r#"{"name":"a","amount":1,"indices":[],"inner":["00"]}"#,
                "`/inner` must be an object, not an array",
            ),
            (r#"{"name":"a","amount":1,"indices":[],"inner":{}}"#, "`/inner/deep` is required"),
            (
                r#"{"name":"a","amount":1,"indices":[],"mode":"x"}"#,
                "`/mode` must be one of `manual`, `automatic`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(shape(text).unwrap_err(), expected);
        }
        let long = format!(r#"{{"name":"{}","amount":1,"indices":[]}}"#, "a".repeat(1025));
        assert_eq!(shape(&long).unwrap_err(), "`/name` must be at most 1024 bytes, not 1025");
    }
}
