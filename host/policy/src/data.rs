//! A bundle's own files under `data/`, as the contract's `data` interface reads them.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The documents by file name, without the folder. Parsed once, when a bundle is loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data(BTreeMap<String, Value>);

impl Data {
    /// These documents, by file name.
    pub(crate) const fn new(documents: BTreeMap<String, Value>) -> Self {
        Self(documents)
    }

    /// The value at a JSON pointer: a string as its text, another value as compact JSON. `None` if there is no such file or
    /// value.
    pub(crate) fn get(&self, file: &str, pointer: &str) -> Option<Cow<'_, str>> {
        value_at(self.0.get(file)?, pointer)
    }
}

/// The value at a JSON pointer in a document, in the form of the contract.
pub(crate) fn value_at<'a>(document: &'a Value, pointer: &str) -> Option<Cow<'a, str>> {
    Some(match find(document, pointer)? {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    })
}

/// Evaluates a JSON pointer (RFC 6901 section 4).
fn find<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.is_empty() {
        return Some(document);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(document, |value, token| match value {
        Value::Object(members) => members.get(&*unescape(token)?),
        Value::Array(items) => items.get(index(token)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// Unescapes a token: `~0` is `~` and `~1` is `/`. `None` for another use of `~`.
fn unescape(token: &str) -> Option<Cow<'_, str>> {
    if !token.contains('~') {
        return Some(Cow::Borrowed(token));
    }
    let mut text = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(Cow::Owned(text))
}

/// Parses an array index: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let is_plain = token == "0" || !token.starts_with(['0', '+']);
    token.parse().ok().filter(|_| is_plain)
}
