//! A serde serializer that writes canonical bytes in one pass and sorts the members of each object in place.

use serde::ser::{self, Serialize};
use std::cell::Cell;
use std::cmp::Ordering;

/// A value without a canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// The value cannot be written as JSON.
    #[error("value cannot be written as JSON: {0}")]
    NotJson(String),
    /// A floating-point number, which implementations write differently.
    #[error("floating-point number `{0}` has no canonical form")]
    Float(String),
}

impl ser::Error for CanonicalError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::NotJson(message.to_string())
    }
}

/// The capacity of a writer that is kept for the next value: enough for most, so that they need no allocation.
const BYTES_KEPT_MAX: usize = 64 * 1024;

thread_local! {
    static KEPT: Cell<Option<Writer>> = const { Cell::new(None) };
}

/// Canonical bytes under construction.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
    /// A buffer for sorting, reused for all objects.
    spare: Vec<u8>,
    /// The members of all open objects, those of the innermost last.
    members: Vec<Member>,
}

/// A member, by its offsets in the output.
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
    /// The first characters of its name, as a number that is ordered as they are. `None` for a name with others than ASCII characters,
    /// or with escaped ones, whose bytes are not ordered as RFC 8785 demands.
    beginning: Option<u64>,
}

impl Member {
    /// The member that has this name, a JSON string literal.
    fn named(name: &[u8], start: usize, name_end: usize) -> Self {
        let is_plain = name.iter().all(|byte| byte.is_ascii() && *byte != b'\\');
        let mut first = [0; size_of::<u64>()];
        first.iter_mut().zip(characters(name)).for_each(|(to, from)| *to = *from);
        Self { start, name_end, end: name_end, beginning: is_plain.then(|| u64::from_be_bytes(first)) }
    }
}

/// What is between the quotes of a JSON string literal. Without them a name sorts before longer ones that begin with it.
fn characters(literal: &[u8]) -> &[u8] {
    literal.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(literal)
}

impl Writer {
    /// Calls `write` with an empty writer: the one that this thread has kept, or a new one.
    pub(super) fn lend<R>(write: impl FnOnce(&mut Self) -> R) -> R {
        let mut writer = KEPT.take().unwrap_or_default();
        let written = write(&mut writer);
        if writer.out.capacity() <= BYTES_KEPT_MAX {
            writer.out.clear();
            writer.members.clear();
            KEPT.set(Some(writer));
        }
        written
    }

    fn text(&mut self, text: &str) -> Result<(), CanonicalError> {
        // serde_json escapes exactly the characters that RFC 8785, section 3.2.2.2, requires.
        serde_json::to_writer(&mut self.out, text).map_err(|error| CanonicalError::NotJson(error.to_string()))
    }

    /// An integer as its decimal string, which is our deviation from RFC 8785.
    fn integer(&mut self, integer: impl Serialize) -> Result<(), CanonicalError> {
        self.out.push(b'"');
        // Faster than formatting it.
        serde_json::to_writer(&mut self.out, &integer)
            .map_err(|error| CanonicalError::NotJson(error.to_string()))?;
        self.out.push(b'"');
        Ok(())
    }

    fn list(&mut self) -> List<'_> {
        self.out.push(b'[');
        List { writer: self, is_empty: true, closing: b"]" }
    }

    fn members(&mut self, closing: &'static [u8]) -> Members<'_> {
        let (start, first) = (self.out.len(), self.members.len());
        Members { writer: self, start, first, closing }
    }

    /// `{"variant":`, which `}` closes later.
    fn variant(&mut self, variant: &str) -> Result<(), CanonicalError> {
        self.out.push(b'{');
        self.text(variant)?;
        self.out.push(b':');
        Ok(())
    }
}

/// An array under construction.
pub(super) struct List<'a> {
    writer: &'a mut Writer,
    is_empty: bool,
    closing: &'static [u8],
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), CanonicalError> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.writer.out.push(b',');
        }
        item.serialize(&mut *self.writer)
    }

    fn close(self) {
        self.writer.out.extend_from_slice(self.closing);
    }
}

/// An object under construction. Its unsorted members begin at `start` in the output and at `first` in the writer's list.
pub(super) struct Members<'a> {
    writer: &'a mut Writer,
    start: usize,
    first: usize,
    closing: &'static [u8],
}

impl Members<'_> {
    fn name<T: Serialize + ?Sized>(&mut self, name: &T) -> Result<(), CanonicalError> {
        let start = self.writer.out.len();
        name.serialize(&mut *self.writer)?;
        let name_end = self.writer.out.len();
        let written = self.writer.out.get(start..).unwrap_or_default();
        self.writer.members.push(Member::named(written, start, name_end));
        self.writer.out.push(b':');
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(&mut *self.writer)?;
        if let Some(member) = self.writer.members.last_mut() {
            member.end = self.writer.out.len();
        }
        Ok(())
    }

    /// Sorts the members in the order of RFC 8785, section 3.2.3.
    fn close(self) -> Result<(), CanonicalError> {
        let Writer { out, spare, members } = self.writer;
        // The sorted members replace the unsorted ones.
        spare.clear();
        spare.extend(out.drain(self.start..));
        let unsorted =
            |from: usize, to: usize| spare.get(from - self.start..to - self.start).unwrap_or_default();
        let of_object = members.get_mut(self.first..).unwrap_or_default();
        if of_object.iter().any(|member| member.end <= member.name_end) {
            return Err(CanonicalError::NotJson("a member has no value".to_owned()));
        }
        let name = |member: &Member| unsorted(member.start, member.name_end);
        of_object.sort_by(|a, b| match (a.beginning, b.beginning) {
            (Some(of_a), Some(of_b)) => {
                of_a.cmp(&of_b).then_with(|| characters(name(a)).cmp(characters(name(b))))
            }
            (None, _) | (_, None) => by_utf16(name(a), name(b)),
        });
        out.push(b'{');
        for (index, member) in of_object.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(unsorted(member.start, member.end));
        }
        out.extend_from_slice(self.closing);
        members.truncate(self.first);
        Ok(())
    }
}

/// Compares two JSON string literals by the UTF-16 code units of their strings.
fn by_utf16(a: &[u8], b: &[u8]) -> Ordering {
    let decoded = |literal: &[u8]| serde_json::from_slice::<String>(literal).unwrap_or_default();
    decoded(a).encode_utf16().cmp(decoded(b).encode_utf16())
}

macro_rules! integers {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method(self, value: $type) -> Result<(), CanonicalError> {
            self.integer(value)
        }
    )*};
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Members<'a>;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    fn serialize_bool(self, value: bool) -> Result<(), CanonicalError> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), CanonicalError> {
        Err(CanonicalError::Float(value.to_string()))
    }

    fn serialize_f64(self, value: f64) -> Result<(), CanonicalError> {
        Err(CanonicalError::Float(value.to_string()))
    }

    fn serialize_char(self, value: char) -> Result<(), CanonicalError> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), CanonicalError> {
        self.text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), CanonicalError> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), CanonicalError> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), CanonicalError> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), CanonicalError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), CanonicalError> {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, CanonicalError> {
        Ok(self.list())
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a>, CanonicalError> {
        Ok(self.list())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'a>, CanonicalError> {
        Ok(self.list())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a>, CanonicalError> {
        self.variant(variant)?;
        Ok(List { closing: b"]}", ..self.list() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a>, CanonicalError> {
        Ok(self.members(b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'a>, CanonicalError> {
        Ok(self.members(b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a>, CanonicalError> {
        self.variant(variant)?;
        Ok(self.members(b"}}"))
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident,)*) => {$(
        impl ser::$trait for List<'_> {
            type Ok = ();
            type Error = CanonicalError;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), CanonicalError> {
                self.item(item)
            }

            fn end(self) -> Result<(), CanonicalError> {
                self.close();
                Ok(())
            }
        }
    )*};
}

lists! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonicalError> {
        self.name(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.value(value)
    }

    fn end(self) -> Result<(), CanonicalError> {
        self.close()
    }
}

macro_rules! structs {
    ($($trait:ident,)*) => {$(
        impl ser::$trait for Members<'_> {
            type Ok = ();
            type Error = CanonicalError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), CanonicalError> {
                self.name(name)?;
                self.value(value)
            }

            fn end(self) -> Result<(), CanonicalError> {
                self.close()
            }
        }
    )*};
}

structs! { SerializeStruct, SerializeStructVariant, }
