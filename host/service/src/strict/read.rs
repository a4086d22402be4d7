//! Reads a body into a request shape. `serde_ignored` finds members that the shape does not have, and `serde_path_to_error`
//! the position of a value that does not fit.

use super::{ARRAY_ENTRIES_MAX, Fault, FaultCode, Json, TEXT_BYTES_MAX, UNKNOWN_NAMED_MAX};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_path_to_error::Segment;
use std::fmt;

/// A request shape, and the members of the body that it does not have.
#[derive(Debug)]
pub struct Reading<T> {
    /// The shape.
    pub value: T,
    /// JSON pointers to the first 16 unknown members.
    pub unknown: Vec<String>,
}

/// Reads a body.
///
/// # Errors
/// [`Fault`] at the first member that does not fit the shape.
pub(super) fn read<T: DeserializeOwned>(json: &Json) -> Result<Reading<T>, Fault> {
    let mut unknown = Vec::new();
    let mut on_unknown = |path: serde_ignored::Path<'_>| {
        if unknown.len() < UNKNOWN_NAMED_MAX {
            unknown.push(pointer_of_unknown(&path));
        }
    };
    let value = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(json, &mut on_unknown));
    let value = value.map_err(|error| {
        let pointer: String = error.path().iter().map(pointer_segment).collect();
        error.into_inner().within(&pointer)
    })?;
    Ok(Reading { value, unknown })
}

fn pointer_of_unknown(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}/{index}", pointer_of_unknown(parent)),
        Path::Map { parent, key } => pointer_of_unknown(parent) + &member_segment(key),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            pointer_of_unknown(parent)
        }
    }
}

pub(super) fn pointer_segment(segment: &Segment) -> String {
    match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => member_segment(key),
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    }
}

/// RFC 6901, section 3: `~` and `/` are escaped.
pub(super) fn member_segment(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The pointer of a new fault is relative to the value being read; `read` prefixes the pointer of that value.
impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::at("", message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::at(format!("/{field}"), "is required").of(FaultCode::Required)
    }
}

impl Json {
    fn must_be(&self, what: &str) -> Fault {
        Fault::at("", format!("must be {what}, not {}", self.kind())).of(FaultCode::WrongType)
    }

    fn integer<T: TryFrom<i64>>(&self, min: impl fmt::Display, max: impl fmt::Display) -> Result<T, Fault> {
        let number = if let Self::Integer(number) = self { T::try_from(*number).ok() } else { None };
        number.ok_or_else(|| match self {
            Self::Integer(_) | Self::OtherNumber => {
                Fault::at("", format!("must be an integer from {min} to {max}"))
            }
            Self::Null | Self::Bool(_) | Self::Text(_) | Self::Array(_) | Self::Object(_) => {
                self.must_be(&format!("an integer from {min} to {max}"))
            }
        })
    }
}

fn check_length(length: usize, of: &str) -> Result<(), Fault> {
    if length > ARRAY_ENTRIES_MAX {
        return Err(Fault::at("", format!("must have at most {ARRAY_ENTRIES_MAX} {of}, not {length}")));
    }
    Ok(())
}

macro_rules! integers {
    ($($method:ident, $visit:ident, $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.integer::<$type>(<$type>::MIN, <$type>::MAX)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &'de Json {
    type Error = Fault;

    integers! {
        deserialize_i64, visit_i64, i64;
        deserialize_u16, visit_u16, u16;
        deserialize_u32, visit_u32, u32;
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::at("", "has no known shape"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Bool(value) = self else { return Err(self.must_be("a boolean")) };
        visitor.visit_bool(*value)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Text(text) = self else { return Err(self.must_be("a string")) };
        if text.len() > TEXT_BYTES_MAX {
            let message = format!("must be at most {TEXT_BYTES_MAX} bytes, not {}", text.len());
            return Err(Fault::at("", message));
        }
        // PostgreSQL stores every other character.
        if text.contains('\0') {
            return Err(Fault::at("", "must not have the character U+0000"));
        }
        visitor.visit_borrowed_str(text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if *self == Json::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    /// A unit struct is an object whose content is ignored.
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Json::Object(_) = self else { return Err(self.must_be("an object or null")) };
        visitor.visit_unit()
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Json::Array(items) = self else { return Err(self.must_be("an array")) };
        check_length(items.len(), "entries")?;
        visitor.visit_seq(SeqDeserializer::new(items.iter()))
    }

    /// A map keeps the names of its members, unlike a struct.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if let Json::Object(members) = self
            && members.iter().any(|(name, _)| name.contains('\0'))
        {
            return Err(Fault::at("", "must not have the character U+0000 in the name of a member"));
        }
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Json::Object(members) = self else { return Err(self.must_be("an object")) };
        check_length(members.len(), "members")?;
        visitor.visit_map(MapDeserializer::new(members.iter().map(|(name, value)| (name.as_str(), value))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let allowed = || {
            let names = variants.iter().map(|variant| format!("`{variant}`")).collect::<Vec<_>>().join(", ");
            if variants.len() == 1 { names } else { format!("one of {names}") }
        };
        let Json::Text(text) = self else { return Err(self.must_be(&allowed())) };
        if !variants.contains(&text.as_str()) {
            return Err(Fault::at("", format!("must be {}", allowed())));
        }
        visitor.visit_enum(text.as_str().into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u64 u128 f32 f64 char bytes byte_buf unit tuple tuple_struct identifier
    }
}

impl<'de> IntoDeserializer<'de, Fault> for &'de Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
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
        super::super::parse::parse(text.as_bytes())
            .and_then(|json| read(&json))
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn unknown_members_are_named_at_any_depth() {
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
    fn a_fault_names_the_pointer_of_the_value() {
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
        let named = read::<std::collections::BTreeMap<String, String>>;
        let zero = super::super::parse::parse(br#"{"a\u0000":"b"}"#).unwrap();
        let why = named(&zero).unwrap_err().to_string();
        assert_eq!(why, "the body must not have the character U+0000 in the name of a member");
        assert_eq!(shape(r#"{"name":"a","amount":1,"indices":[],"x\u0000":1}"#).unwrap().unknown, ["/x\0"]);
        let zero = r#"{"name":"a\u0000b","amount":1,"indices":[]}"#;
        assert_eq!(shape(zero).unwrap_err(), "`/name` must not have the character U+0000");
    }
}
