//! JSON as this gateway takes it: no duplicate member, no deep nesting, no number that would be rounded in silence.
//!
//! serde_json alone keeps the last of two equal members and reads arrays where a struct is due; both let two readers
//! of one body see two things.

mod limits;
mod parse;
mod read;
mod write;

pub use limits::{ARRAY_ENTRIES_MAX, DEPTH_MAX, TEXT_BYTES_MAX};
pub use parse::parse;
pub use read::{Reading, read};
pub use write::write;

use zeroize::Zeroize;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number that fits.
    Integer(i64),
    /// Any other number: a fraction, or one too large.
    OtherNumber,
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: members in order, each name once.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// What it is, for messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
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

/// What is wrong with a body, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", at(.pointer))]
pub struct Fault {
    /// JSON pointer (RFC 6901); empty for the whole body.
    pub pointer: String,
    /// What is wrong or allowed.
    pub message: String,
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { "the body ".to_owned() } else { format!("`{pointer}` ") }
}

impl Fault {
    /// A fault at a place.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }

    /// The same fault of a value that is itself a member, at this pointer.
    #[must_use]
    pub fn within(self, pointer: &str) -> Self {
        Self { pointer: format!("{pointer}{}", self.pointer), message: self.message }
    }
}

/// Overwrites every string below a value.
impl Zeroize for Json {
    fn zeroize(&mut self) {
        match self {
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::OtherNumber => {}
            Self::Text(text) => text.zeroize(),
            Self::Array(items) => items.iter_mut().for_each(Zeroize::zeroize),
            Self::Object(members) => members.iter_mut().for_each(|(_, value)| value.zeroize()),
        }
    }
}
