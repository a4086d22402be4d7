//! The reader of request bodies. It rejects duplicate members, deep nesting, inexact integers, and strings, arrays and maps
//! above their limits. A message has the JSON pointer of the value.
//!
//! serde_json alone accepts duplicates of members that it does not know, and an array in place of a struct, so that two
//! readers of one body could see different requests. `parse` therefore builds a `Json` value, from which [`read()`]
//! deserializes the shape (ADR 33).

mod parse;
mod read;

pub use read::{Reading, read};

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
#[derive(Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", subject(.pointer))]
pub struct Fault {
    /// JSON pointer (RFC 6901); empty for the whole body.
    pub pointer: String,
    /// The rule that the value breaks.
    pub message: String,
}

fn subject(pointer: &str) -> String {
    if pointer.is_empty() { "the body ".to_owned() } else { format!("`{pointer}` ") }
}

impl Fault {
    /// A fault at a JSON pointer.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }

    /// Prefixes the pointer with that of the enclosing value.
    #[must_use]
    pub fn within(self, pointer: &str) -> Self {
        Self { pointer: format!("{pointer}{}", self.pointer), message: self.message }
    }
}
