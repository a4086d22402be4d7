//! Redacts the canonical bytes of an event: what is open is copied, and the rest replaced.
//!
//! Canonical bytes have no space between tokens, no numbers, and the members of each object in order, so that a value in the redacted
//! form is at the place of the original.

use super::rules::{EVENT, Rule, Shape};
use super::salt::Salt;
use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use serde::Serialize;
use std::borrow::Cow;

/// Who may see a field that is hidden in the redacted form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Readers of the operation's evidence. The redacted form shows the last four characters of a text.
    Masked,
    /// Readers of the operation's evidence.
    Parties,
    /// Readers of the operation's evidence, once the operation is published.
    Published,
    /// No one, because no rule lists the field.
    Sealed,
}

/// A field that is being hidden.
pub(super) struct Hidden<'a> {
    pub(super) visibility: Visibility,
    pub(super) path: &'a str,
    pub(super) salt: Hex32,
    pub(super) commitment: Hex32,
    /// The text that the redacted form shows for a masked value.
    pub(super) shown: Option<String>,
}

/// The canonical bytes of the redacted form of `canonical`, an event. `note` gets each hidden field, in order.
pub(super) fn redact(
    canonical: &[u8],
    salt: &Salt,
    note: impl FnMut(Hidden<'_>),
) -> Result<Vec<u8>, CanonicalError> {
    let out = Vec::with_capacity(canonical.len().saturating_mul(2));
    let rest = Rest(canonical);
    let mut walk = Walk { rest, salt, path: String::new(), out, preimage: Vec::new(), note };
    walk.members(EVENT, None)?;
    Ok(walk.out)
}

/// The commitment to a field. `value` is canonical.
pub(super) fn commitment(
    path: &str,
    salt: Hex32,
    value: &[u8],
    preimage: &mut Vec<u8>,
) -> Result<Hex32, CanonicalError> {
    preimage.clear();
    preimage.extend_from_slice(b"{\"path\":");
    push_text(preimage, path)?;
    preimage.extend_from_slice(b",\"salt\":");
    push_text(preimage, &salt)?;
    preimage.extend_from_slice(b",\"value\":");
    preimage.extend_from_slice(value);
    preimage.push(b'}');
    Ok(canonical::digest_bytes("svc/field/v1", preimage))
}

struct Walk<'a, N> {
    rest: Rest<'a>,
    salt: &'a Salt,
    /// The path of the value that is next.
    path: String,
    out: Vec<u8>,
    /// A buffer for what a commitment hashes.
    preimage: Vec<u8>,
    note: N,
}

impl<'a, N: FnMut(Hidden<'_>)> Walk<'a, N> {
    fn apply(&mut self, rule: &Rule) -> Result<(), CanonicalError> {
        match rule {
            Rule::Open => self.copy_value(),
            Rule::Masked => self.hide(Visibility::Masked),
            Rule::Parties => self.hide(Visibility::Parties),
            Rule::Published => self.hide(Visibility::Published),
            Rule::Members(shape) => self.members(shape, None),
            Rule::Tagged(tag, shapes) => {
                let name = self.rest.text_of_member(tag)?;
                match shapes.iter().find(|(listed, _)| name == Some(listed.as_bytes())) {
                    Some((_, shape)) => self.members(shape, Some(tag)),
                    None => self.hide(Visibility::Sealed),
                }
            }
            Rule::Each(rule) => self.each(rule),
        }
    }

    fn copy_value(&mut self) -> Result<(), CanonicalError> {
        let value = self.rest.value()?;
        self.out.extend_from_slice(value);
        Ok(())
    }

    /// Copies the next token if it is this.
    fn copy_token(&mut self, token: u8) -> bool {
        let is_next = self.rest.takes(token);
        if is_next {
            self.out.push(token);
        }
        is_next
    }

    fn members(&mut self, shape: &Shape, tag: Option<&str>) -> Result<(), CanonicalError> {
        if !self.copy_token(b'{') {
            return self.hide_unless_null();
        }
        while !self.copy_token(b'}') {
            self.copy_token(b',');
            let literal = self.rest.value()?;
            let name = inside(literal).ok_or_else(unreadable)?;
            self.out.extend_from_slice(literal);
            self.copy_token(b':');
            let rule = shape.iter().copied().flatten().find(|(listed, _)| listed.as_bytes() == name);
            self.below(&decoded(literal)?, |walk| match rule {
                Some((_, rule)) => walk.apply(rule),
                None if tag.is_some_and(|tag| tag.as_bytes() == name) => walk.copy_value(),
                None => walk.hide(Visibility::Sealed),
            })?;
        }
        Ok(())
    }

    fn each(&mut self, rule: &Rule) -> Result<(), CanonicalError> {
        if !self.copy_token(b'[') {
            return self.hide_unless_null();
        }
        let mut index = 0_usize;
        while !self.copy_token(b']') {
            self.copy_token(b',');
            self.below(&index.to_string(), |walk| walk.apply(rule))?;
            index = index.saturating_add(1);
        }
        Ok(())
    }

    /// Seals a value of another type than listed, except null.
    fn hide_unless_null(&mut self) -> Result<(), CanonicalError> {
        if self.rest.0.starts_with(b"null") { self.copy_value() } else { self.hide(Visibility::Sealed) }
    }

    fn hide(&mut self, visibility: Visibility) -> Result<(), CanonicalError> {
        let value = self.rest.value()?;
        let is_text = value.first() == Some(&b'"');
        let shown = if visibility == Visibility::Masked && is_text {
            Some(last_four(&decoded(value)?))
        } else {
            None
        };
        let salt = self.salt.of_field(&self.path);
        let commitment = commitment(&self.path, salt, value, &mut self.preimage)?;
        self.out.extend_from_slice(b"{\"commitment\":");
        push_text(&mut self.out, &commitment)?;
        if let Some(shown) = &shown {
            self.out.extend_from_slice(b",\"shown\":");
            push_text(&mut self.out, shown)?;
        }
        self.out.push(b'}');
        (self.note)(Hidden { visibility, path: &self.path, salt, commitment, shown });
        Ok(())
    }

    /// Calls `run` with the path extended by a token.
    fn below<T>(&mut self, token: &str, run: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        push_token(&mut self.path, token);
        let result = run(self);
        self.path.truncate(length);
        result
    }
}

/// `…1234`; a name of four characters or fewer is hidden completely.
#[must_use]
pub fn last_four(name: &str) -> String {
    let n_characters = name.chars().count();
    let n_left_out = if n_characters > 4 { n_characters - 4 } else { n_characters };
    format!("…{}", name.chars().skip(n_left_out).collect::<String>())
}

/// Adds a reference token to a JSON pointer (RFC 6901 section 3).
pub(super) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// Canonical bytes that are not yet read.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Reads the next token if it is this.
    fn takes(&mut self, token: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == token => {
                self.0 = rest;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Reads a value.
    fn value(&mut self) -> Result<&'a [u8], CanonicalError> {
        let (mut depth, mut is_in_text, mut is_escaped) = (0_usize, false, false);
        let ends = |byte: &u8| {
            if is_in_text {
                is_in_text = is_escaped || *byte != b'"';
                is_escaped = !is_escaped && *byte == b'\\';
                return false;
            }
            match byte {
                b'"' => is_in_text = true,
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' | b',' | b':' if depth == 0 => return true,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            false
        };
        let length = self.0.iter().position(ends).unwrap_or(self.0.len());
        let (value, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest;
        if value.is_empty() { Err(unreadable()) } else { Ok(value) }
    }

    /// The text of a member of the object that is next, between its quotation marks.
    fn text_of_member(mut self, name: &str) -> Result<Option<&'a [u8]>, CanonicalError> {
        if !self.takes(b'{') {
            return Ok(None);
        }
        while !self.takes(b'}') {
            self.takes(b',');
            let found = inside(self.value()?);
            self.takes(b':');
            let value = self.value()?;
            if found == Some(name.as_bytes()) {
                return Ok(inside(value));
            }
        }
        Ok(None)
    }
}

/// The bytes of a text between its quotation marks; `None` for another value.
fn inside(literal: &[u8]) -> Option<&[u8]> {
    literal.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// A text that was written as canonical bytes.
fn decoded(literal: &[u8]) -> Result<Cow<'_, str>, CanonicalError> {
    let plain = inside(literal).filter(|text| !text.contains(&b'\\'));
    match plain.and_then(|text| std::str::from_utf8(text).ok()) {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => serde_json::from_slice(literal).map(Cow::Owned).map_err(|_| unreadable()),
    }
}

/// Adds a text as canonical bytes have it.
fn push_text<T: Serialize + ?Sized>(out: &mut Vec<u8>, text: &T) -> Result<(), CanonicalError> {
    serde_json::to_writer(out, text).map_err(|error| CanonicalError::NotJson(error.to_string()))
}

fn unreadable() -> CanonicalError {
    CanonicalError::NotJson("its canonical bytes cannot be read".to_owned())
}
