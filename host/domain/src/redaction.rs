//! Redaction: the form of an event that the hash chain hashes and that exports contain.
//!
//! The tables in [`rules`] are an allow-list. A member that is listed as open appears in clear. Everything else is replaced
//! by a salted commitment, and the chain hashes the result: an export that opens nothing has exactly the bytes that were
//! hashed, and an export that opens a field proves its value. A [`Disclosure`] opens a field by its salt and value.
//!
//! `commitment = SHA-256("svc/field/v1" || canonical {path, salt, value})`, with the field's salt
//! `SHA-256("svc/field-salt/v1" || event's salt || path)`: the salt of one field says nothing about another's. The
//! path is a JSON pointer (RFC 6901) into the event.

mod opened;
pub mod rules;

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::operation::Event;
use rules::{EVENT, Rule, Shape};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt;

pub use opened::{DisclosureError, Opened, open};

/// The salt of one event's commitments: 32 random bytes, as secret as the values that the commitments hide.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt([u8; 32]);

impl Salt {
    /// The salt of an event that hides nothing. It is fixed, so that a changed salt of such an event is detected.
    pub const UNUSED: Self = Self([0; 32]);

    /// Wraps 32 bytes, which must come from the operating system's random generator.
    #[must_use]
    pub const fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// The 32 bytes, for the store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn of_field(&self, path: &str) -> Hex32 {
        let hasher = Sha256::new().chain_update("svc/field-salt/v1").chain_update(self.0).chain_update(path);
        Hex32::new(hasher.finalize().into())
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(<redacted>)")
    }
}

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

/// An opened field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disclosure {
    /// Its JSON pointer in the event.
    pub path: String,
    /// The field's own salt.
    pub salt: Hex32,
    /// The value.
    pub value: Value,
}

impl Disclosure {
    fn commitment(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/field/v1", self)
    }
}

/// A redacted event, and the fields that it hides.
#[derive(Clone, Debug)]
pub struct Redacted {
    /// The redacted form, which the chain hashes.
    pub event: Value,
    hidden: Vec<(Visibility, Disclosure)>,
}

impl Redacted {
    /// Whether the event hides nothing, so that its salt is not used.
    #[must_use]
    pub const fn hides_nothing(&self) -> bool {
        self.hidden.is_empty()
    }

    /// The hidden fields whose visibility `sees` accepts.
    pub fn disclosures(self, sees: impl Fn(Visibility) -> bool) -> Vec<Disclosure> {
        self.hidden.into_iter().filter(|(visibility, _)| sees(*visibility)).map(|(_, field)| field).collect()
    }
}

/// Redacts an event.
pub fn redact(event: &Event, salt: &Salt) -> Result<Redacted, CanonicalError> {
    let event = serde_json::to_value(event).map_err(|error| CanonicalError::NotJson(error.to_string()))?;
    let mut walk = Walk { salt, path: String::new(), hidden: Vec::new() };
    let event = walk.shape(event, EVENT)?;
    Ok(Redacted { event, hidden: walk.hidden })
}

/// `…1234`; a name of four characters or fewer is hidden completely.
#[must_use]
pub fn last_four(name: &str) -> String {
    let n_characters = name.chars().count();
    let n_left_out = if n_characters > 4 { n_characters - 4 } else { n_characters };
    format!("…{}", name.chars().skip(n_left_out).collect::<String>())
}

struct Walk<'a> {
    salt: &'a Salt,
    path: String,
    hidden: Vec<(Visibility, Disclosure)>,
}

impl Walk<'_> {
    fn apply(&mut self, value: Value, rule: &Rule) -> Result<Value, CanonicalError> {
        match rule {
            Rule::Open => Ok(value),
            Rule::Masked => self.hide(value, Visibility::Masked),
            Rule::Parties => self.hide(value, Visibility::Parties),
            Rule::Published => self.hide(value, Visibility::Published),
            Rule::Members(shape) => self.shape(value, shape),
            Rule::Tagged(tag, shapes) => {
                let name = value.get(tag).and_then(Value::as_str);
                match shapes.iter().find(|(listed, _)| Some(*listed) == name) {
                    Some((_, shape)) => self.members(value, shape, Some(tag)),
                    None => self.hide(value, Visibility::Sealed),
                }
            }
            Rule::Each(rule) => match value {
                Value::Array(items) => self.each(items, rule),
                other => self.hide_unless_null(other),
            },
        }
    }

    fn shape(&mut self, value: Value, shape: &Shape) -> Result<Value, CanonicalError> {
        self.members(value, shape, None)
    }

    fn members(&mut self, value: Value, shape: &Shape, tag: Option<&str>) -> Result<Value, CanonicalError> {
        let Value::Object(members) = value else { return self.hide_unless_null(value) };
        let mut redacted = Map::new();
        for (name, value) in members {
            let length = self.path.len();
            push_token(&mut self.path, &name);
            let rule = shape.iter().copied().flatten().find(|(listed, _)| *listed == name);
            let member = match rule {
                Some((_, rule)) => self.apply(value, rule)?,
                None if tag == Some(name.as_str()) => value,
                None => self.hide(value, Visibility::Sealed)?,
            };
            redacted.insert(name, member);
            self.path.truncate(length);
        }
        Ok(Value::Object(redacted))
    }

    fn each(&mut self, items: Vec<Value>, rule: &Rule) -> Result<Value, CanonicalError> {
        let mut redacted = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let length = self.path.len();
            push_token(&mut self.path, &index.to_string());
            redacted.push(self.apply(item, rule)?);
            self.path.truncate(length);
        }
        Ok(Value::Array(redacted))
    }

    /// Seals a value of another type than listed, except null.
    fn hide_unless_null(&mut self, value: Value) -> Result<Value, CanonicalError> {
        if value.is_null() { Ok(value) } else { self.hide(value, Visibility::Sealed) }
    }

    fn hide(&mut self, value: Value, visibility: Visibility) -> Result<Value, CanonicalError> {
        let shown = masked_text(&value, visibility);
        let field = Disclosure { path: self.path.clone(), salt: self.salt.of_field(&self.path), value };
        let commitment = field.commitment()?;
        self.hidden.push((visibility, field));
        Ok(match shown {
            Some(shown) => json!({ "commitment": commitment, "shown": shown }),
            None => json!({ "commitment": commitment }),
        })
    }
}

/// The text that the redacted form shows for a masked value.
fn masked_text(value: &Value, visibility: Visibility) -> Option<String> {
    (visibility == Visibility::Masked).then(|| value.as_str().map(last_four)).flatten()
}

/// Adds a reference token to a JSON pointer (RFC 6901 section 3).
fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests;
