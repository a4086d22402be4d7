//! The reader of request bodies: no duplicate member, no deep nesting, no number that would be rounded silently, limits
//! on strings and arrays, and a JSON pointer in each message.
//!
//! serde_json alone keeps the last of two equal members and reads an array where a struct is due, so that two readers of
//! one body could see different requests. `parse` therefore builds a `Json` value, which [`read()`] matches with the
//! shape (ADR 33).

mod parse;
mod read;

pub use read::{Reading, read};

use zeroize::Zeroizing;

/// Deepest nesting of objects and arrays: far above that of any request, far below what a stack holds.
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
    /// A fraction, or a number beyond 64 bits with a sign.
    OtherNumber,
    Text(Zeroizing<String>),
    Array(Vec<Json>),
    /// Members in their order, each name once.
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

/// A value that does not fit, and its place in the body.
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
    /// A fault at a pointer.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }

    /// The same fault in a value that is itself at `pointer`.
    #[must_use]
    pub fn within(self, pointer: &str) -> Self {
        Self { pointer: format!("{pointer}{}", self.pointer), message: self.message }
    }
}
