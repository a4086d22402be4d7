//! An issuer's public keys by their ids (RFC 7517, section 5).

use super::{Key, KeyFault};
use crate::limits::{KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX, TEXT_BYTES_MAX};
use gateway_domain::json::{self, Floats};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Keys by `kid`.
#[derive(Clone, Debug, Default)]
pub struct KeySet(BTreeMap<String, Arc<Key>>);

/// Why a text is not a usable key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetFault {
    /// Too many bytes or keys.
    #[error("the key set is larger than the limit")]
    TooLarge,
    /// Not a key set.
    #[error("the document is not a JSON Web Key Set")]
    Malformed,
}

impl KeySet {
    /// Reads a set. Keys that cannot be used (see [`KeyFault`]) or have no valid `kid` are skipped (RFC 7517, section 5): some issuers give a
    /// key for encryption the `kid` of the one for signatures. Of those that are left, keys that share a `kid` are skipped too, since a token
    /// could choose between them.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetFault> {
        if bytes.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetFault::TooLarge);
        }
        let document = json::parse(bytes, Floats::Allowed).map_err(|_| KeySetFault::Malformed)?;
        let given = document.get("keys").and_then(Value::as_array).ok_or(KeySetFault::Malformed)?;
        if given.len() > KEY_SET_KEYS_MAX {
            return Err(KeySetFault::TooLarge);
        }
        let mut keys: BTreeMap<String, Option<Arc<Key>>> = BTreeMap::new();
        for jwk in given {
            let jwk = jwk.as_object().ok_or(KeySetFault::Malformed)?;
            let Some(id) = jwk.get("kid").and_then(Value::as_str).filter(|id| id.len() <= TEXT_BYTES_MAX)
            else {
                tracing::warn!("a key without a valid `kid` in the issuer's key set is skipped");
                continue;
            };
            let key = match Key::parse(jwk) {
                Ok(key) => Arc::new(key),
                Err(fault) => {
                    log_skipped(id, fault);
                    continue;
                }
            };
            match keys.entry(id.to_owned()) {
                Entry::Vacant(entry) => drop(entry.insert(Some(key))),
                Entry::Occupied(mut entry) => {
                    tracing::warn!(
                        kid = id,
                        "two keys of the issuer's key set have the same `kid`; neither is used"
                    );
                    entry.insert(None);
                }
            }
        }
        Ok(Self(keys.into_iter().filter_map(|(id, key)| Some((id, key?))).collect()))
    }

    /// The key with this `kid`.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Key>> {
        self.0.get(id)
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Logs a skipped key. One for another use is normal; a faulty or private one deserves a warning.
fn log_skipped(id: &str, fault: KeyFault) {
    match fault {
        KeyFault::Use | KeyFault::Kind => {
            tracing::debug!(kid = id, %fault, "a key of the issuer's key set is skipped")
        }
        KeyFault::Malformed | KeyFault::Size | KeyFault::Private => {
            tracing::warn!(kid = id, %fault, "a key of the issuer's key set is skipped");
        }
    }
}
