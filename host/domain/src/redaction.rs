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
mod salt;
mod walk;

use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::operation::Event;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::mem;

pub use opened::{DisclosureError, Opened, open};
pub use salt::Salt;
pub use walk::{Visibility, last_four};

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
        walk::commitment(&self.path, self.salt, &canonical::to_bytes(&self.value)?, &mut Vec::new())
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
    /// The hidden fields whose visibility `sees` accepts.
    pub fn disclosures(self, sees: impl Fn(Visibility) -> bool) -> Vec<Disclosure> {
        self.hidden.into_iter().filter(|(visibility, _)| sees(*visibility)).map(|(_, field)| field).collect()
    }
}

/// Redacts an event.
pub fn redact(event: &Event, salt: &Salt) -> Result<Redacted, CanonicalError> {
    redact_value(event, salt)
}

/// The canonical bytes of the redacted form of an event, and whether it hides anything.
pub(crate) fn redacted_bytes(event: &Event, salt: &Salt) -> Result<(Vec<u8>, bool), CanonicalError> {
    let mut hides_something = false;
    let bytes = walk::redact(&canonical::to_bytes(event)?, salt, |_| hides_something = true)?;
    Ok((bytes, hides_something))
}

fn redact_value<T: Serialize>(value: &T, salt: &Salt) -> Result<Redacted, CanonicalError> {
    let mut event =
        serde_json::to_value(value).map_err(|error| CanonicalError::NotJson(error.to_string()))?;
    let mut hidden = Vec::new();
    walk::redact(&canonical::to_bytes(value)?, salt, |field| {
        let form = match field.shown {
            Some(shown) => json!({ "commitment": field.commitment, "shown": shown }),
            None => json!({ "commitment": field.commitment }),
        };
        let path = field.path.to_owned();
        let value = event.pointer_mut(&path).map(|value| mem::replace(value, form)).unwrap_or_default();
        hidden.push((field.visibility, Disclosure { path, salt: field.salt, value }));
    })?;
    Ok(Redacted { event, hidden })
}

#[cfg(test)]
mod tests;
