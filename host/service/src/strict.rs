//! The reader of request bodies: start at [`read_checked()`], or at [`read_exact()`] for the messages between our own processes. It rejects duplicate members, deep nesting, inexact integers, and
//! strings, arrays and maps above their limits. A message has the JSON pointer of the value.
//!
//! serde_json alone accepts duplicates of members that it does not know, and an array in place of a struct, so that two
//! readers of one body could see different requests. `parse` therefore builds a `Json` value, from which `read`
//! deserializes the shape (ADR 33).

mod exact;
mod faults;
mod parse;
mod read;

pub use exact::read_exact;
pub use faults::read_checked;
pub use read::Reading;

use serde::Serialize;
use zeroize::Zeroizing;

/// Deepest nesting of objects and arrays: far more than any request needs, far less than overflows the stack.
pub const DEPTH_MAX: usize = 64;

/// Longest string in bytes, unless its member has another limit.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Most entries of an array or of a map.
pub const ARRAY_ENTRIES_MAX: usize = 64;

/// Most unknown members that a `Warning` header and evidence name.
const UNKNOWN_NAMED_MAX: usize = 16;

/// A JSON value. Strings are overwritten when dropped: they may be secret.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is not a signed 64-bit integer.
    OtherNumber,
    Text(Zeroizing<String>),
    Array(Vec<Json>),
    /// The members in the order of the body; no name occurs twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The type, for messages.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::OtherNumber => "a number",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// The reason why a body is invalid, and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{}{message}", subject(.pointer))]
pub struct Fault {
    /// JSON pointer (RFC 6901) to the member; empty for the whole body.
    pub pointer: String,
    /// The code, on which clients can rely.
    pub code: FaultCode,
    /// The rule that the value breaks, for people. The wording may change.
    pub message: String,
    /// The pointer of another member with which the value was compared.
    #[serde(skip)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    compared_with: Option<String>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// The body is missing or is not strict JSON.
    NotJson,
    /// The member is missing.
    Required,
    /// The value has another type.
    WrongType,
    /// The request has no such member.
    UnknownMember,
    /// The value is not allowed.
    InvalidValue,
}

fn subject(pointer: &str) -> String {
    if pointer.is_empty() { "the body ".to_owned() } else { format!("`{pointer}` ") }
}

impl Fault {
    /// A value at a JSON pointer that is not allowed.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        let (pointer, message) = (pointer.into(), message.into());
        Self { pointer, code: FaultCode::InvalidValue, message, compared_with: None }
    }

    /// The fault with another code.
    #[must_use]
    pub fn of(self, code: FaultCode) -> Self {
        Self { code, ..self }
    }

    /// The fault of a value that does not fit the value at another pointer. If that one is faulty too, this one is not reported.
    #[must_use]
    pub fn compared_with(self, other: &str) -> Self {
        Self { compared_with: Some(other.to_owned()), ..self }
    }

    /// Prefixes the pointers with that of the enclosing value.
    #[must_use]
    pub fn within(self, pointer: &str) -> Self {
        let compared_with = self.compared_with.map(|other| format!("{pointer}{other}"));
        Self { pointer: format!("{pointer}{}", self.pointer), compared_with, ..self }
    }
}
