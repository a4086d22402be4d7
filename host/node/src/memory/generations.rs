//! A cache of decoded public keys, and of the keys for payments that follow from them. Decoding takes a curve operation for each
//! participant, a key for payments three.

use crate::limits::GENERATIONS_DECODED_MAX;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_threshold::derive::Derivation;
use gateway_threshold::{PublicKeys, ThresholdError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Decoded public keys and keys for payments by epoch root. The root is a digest of key, epoch and public keys, so an entry never becomes
/// stale.
#[derive(Default)]
pub struct Generations {
    decoded: Mutex<BTreeMap<Hex32, Arc<PublicKeys>>>,
    payments: Mutex<BTreeMap<Hex32, Derivation>>,
}

impl Generations {
    /// The keys of the generation with this root, from the cache or from `decode`, which must check them against the root.
    pub fn keys<E>(
        &self,
        root: Hex32,
        decode: impl FnOnce() -> Result<PublicKeys, E>,
    ) -> Result<Arc<PublicKeys>, E> {
        known_or(&self.decoded, root, || decode().map(Arc::new))
    }

    /// The key for payments of the key with this id, whose generation with this root has these public keys.
    ///
    /// # Errors
    /// As [`Derivation::payments`].
    pub fn payments(
        &self,
        root: Hex32,
        key_id: KeyId,
        keys: &PublicKeys,
    ) -> Result<Derivation, ThresholdError> {
        known_or(&self.payments, root, || Derivation::of(keys)?.payments(key_id.0.as_bytes()))
    }
}

/// What is known of this root, or else what `compute` returns, which is known from now on.
fn known_or<V: Clone, E>(
    known: &Mutex<BTreeMap<Hex32, V>>,
    root: Hex32,
    compute: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    if let Some(value) = known.lock().get(&root) {
        return Ok(value.clone());
    }
    let value = compute()?;
    let mut known = known.lock();
    if known.len() >= GENERATIONS_DECODED_MAX {
        known.clear();
    }
    known.insert(root, value.clone());
    Ok(value)
}

impl fmt::Debug for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generations").field("n_decoded", &self.decoded.lock().len()).finish()
    }
}
