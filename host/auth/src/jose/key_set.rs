//! The keys of an issuer, by their names (RFC 7517, section 5).

use super::{Key, KeyFault};
use crate::limits::{KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX, TEXT_BYTES_MAX};
use gateway_domain::json::{self, Floats};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Keys by name.
#[derive(Clone, Debug, Default)]
pub struct KeySet(BTreeMap<String, Arc<Key>>);

/// Why a text is no key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetFault {
    /// Too much of it.
    #[error("the key set is larger than is looked at")]
    TooLarge,
    /// It is something else.
    #[error("it is no JSON Web Key Set")]
    Malformed,
}

impl KeySet {
    /// Reads a set. Keys that are not used here (of another kind, for another use, without a name) are left out
    /// (RFC 7517, section 5). A name that two keys have is nobody's: which is meant would be for the token to choose.
    ///
    /// # Errors
    /// [`KeySetFault`].
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetFault> {
        if bytes.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetFault::TooLarge);
        }
        let document = json::parse(bytes, Floats::Taken).map_err(|_| KeySetFault::Malformed)?;
        let given = document.get("keys").and_then(Value::as_array).ok_or(KeySetFault::Malformed)?;
        if given.len() > KEY_SET_KEYS_MAX {
            return Err(KeySetFault::TooLarge);
        }
        let mut keys: BTreeMap<String, Option<Arc<Key>>> = BTreeMap::new();
        for jwk in given {
            let jwk = jwk.as_object().ok_or(KeySetFault::Malformed)?;
            let Some(id) = jwk.get("kid").and_then(Value::as_str).filter(|id| id.len() <= TEXT_BYTES_MAX)
            else {
                tracing::warn!("a key without a name is left out of the issuer's key set");
                continue;
            };
            let key = Key::parse(jwk).map(Arc::new);
            if let Err(fault) = &key {
                left_out(id, *fault);
            }
            match keys.entry(id.to_owned()) {
                Entry::Vacant(place) => drop(place.insert(key.ok())),
                Entry::Occupied(mut place) => {
                    tracing::warn!(
                        kid = id,
                        "two keys of the issuer's key set have one name; neither is used"
                    );
                    place.insert(None);
                }
            }
        }
        Ok(Self(keys.into_iter().filter_map(|(id, key)| Some((id, key?))).collect()))
    }

    /// The key of this name.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Key>> {
        self.0.get(id)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Keys for other uses are a subject of course; a private one is none.
fn left_out(id: &str, fault: KeyFault) {
    match fault {
        KeyFault::Use | KeyFault::Kind => tracing::debug!(kid = id, %fault, "a key is left out"),
        KeyFault::Malformed | KeyFault::Size | KeyFault::Private => {
            tracing::warn!(kid = id, %fault, "a key is left out of the issuer's key set");
        }
    }
}
