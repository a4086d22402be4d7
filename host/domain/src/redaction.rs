//! An event as the hash chain and every export have it: what nobody listed is not in it.
//!
//! The tables in [`rules`] are an allow-list. What is listed as open stands in the event as it is. Everything else is
//! replaced by a salted commitment, and the chain is over what is left: so an export that opens nothing is still the
//! very bytes that were hashed, and one that opens a field proves it. Opening is telling the field's salt and value, a
//! [`Disclosure`].
//!
//! `commitment = SHA-256("svc/field/v1" || canonical {path, salt, value})`, with the field's salt `SHA-256("svc/field-salt/v1" ||
//! event's salt || path)`: whoever is told one field's salt learns nothing of another's. The path is a JSON pointer
//! (RFC 6901) into the event.

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

/// What the commitments of one event are salted with: 32 random bytes. As secret as what it hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt([u8; 32]);

impl Salt {
    /// Of an event that hides nothing, so that the hash of the event says what its salt is.
    pub const UNUSED: Self = Self([0; 32]);

    /// Wraps bytes that must come from the operating system's randomness.
    #[must_use]
    pub const fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// For the store alone.
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

/// Who may see a field that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The operation's parties, in its evidence; exports show its last four characters.
    Masked,
    /// The operation's parties, in its evidence.
    Parties,
    /// Everybody, once the operation is published.
    Published,
    /// Nobody: the field is not listed.
    Sealed,
}

/// A field that was committed to, opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disclosure {
    /// Where it is in the event.
    pub path: String,
    /// Its own salt.
    pub salt: Hex32,
    /// What was committed to.
    pub value: Value,
}

impl Disclosure {
    fn commitment(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/field/v1", self)
    }
}

/// An event with commitments in it, and what they hide.
#[derive(Clone, Debug)]
pub struct Redacted {
    /// What the chain is over.
    pub event: Value,
    hidden: Vec<(Visibility, Disclosure)>,
}

impl Redacted {
    /// Whether everything in the event is open: then its salt is in no commitment.
    #[must_use]
    pub const fn hides_nothing(&self) -> bool {
        self.hidden.is_empty()
    }

    /// What this visibility opens.
    pub fn disclosures(self, sees: impl Fn(Visibility) -> bool) -> Vec<Disclosure> {
        self.hidden.into_iter().filter(|(visibility, _)| sees(*visibility)).map(|(_, field)| field).collect()
    }
}

/// The event as the chain has it.
///
/// # Errors
/// [`CanonicalError`], which no event gives.
pub fn redact(event: &Event, salt: &Salt) -> Result<Redacted, CanonicalError> {
    let event = serde_json::to_value(event).map_err(|error| CanonicalError::NotJson(error.to_string()))?;
    let mut walk = Walk { salt, path: String::new(), hidden: Vec::new() };
    let event = walk.shape(event, EVENT)?;
    Ok(Redacted { event, hidden: walk.hidden })
}

/// `…1234`; names of four characters or fewer are left out whole.
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
            let shown = match rule {
                Some((_, rule)) => self.apply(value, rule)?,
                None if tag == Some(name.as_str()) => value,
                None => self.hide(value, Visibility::Sealed)?,
            };
            redacted.insert(name, shown);
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

    /// Something else than was listed: that there is nothing may be seen, and nothing more.
    fn hide_unless_null(&mut self, value: Value) -> Result<Value, CanonicalError> {
        if value.is_null() { Ok(value) } else { self.hide(value, Visibility::Sealed) }
    }

    fn hide(&mut self, value: Value, visibility: Visibility) -> Result<Value, CanonicalError> {
        let shown = shown(&value, visibility);
        let field = Disclosure { path: self.path.clone(), salt: self.salt.of_field(&self.path), value };
        let commitment = field.commitment()?;
        self.hidden.push((visibility, field));
        Ok(match shown {
            Some(shown) => json!({ "commitment": commitment, "shown": shown }),
            None => json!({ "commitment": commitment }),
        })
    }
}

fn shown(value: &Value, visibility: Visibility) -> Option<String> {
    (visibility == Visibility::Masked).then(|| value.as_str().map(last_four)).flatten()
}

/// Adds a reference token to a JSON pointer (RFC 6901 section 3).
fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests;
