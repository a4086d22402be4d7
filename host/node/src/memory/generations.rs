//! A cache of decoded public keys. Decoding takes a curve operation for each participant.

use crate::limits::GENERATIONS_DECODED_MAX;
use gateway_domain::ids::Hex32;
use gateway_threshold::PublicKeys;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Decoded public keys by epoch root. The root is a digest of key, epoch and public keys, so an entry never becomes stale.
#[derive(Default)]
pub struct Generations(Mutex<BTreeMap<Hex32, Arc<PublicKeys>>>);

impl Generations {
    /// The keys of the generation with this root, from the cache or from `decode`, which must check them against the root.
    pub fn keys<E>(
        &self,
        root: Hex32,
        decode: impl FnOnce() -> Result<PublicKeys, E>,
    ) -> Result<Arc<PublicKeys>, E> {
        if let Some(keys) = self.0.lock().get(&root) {
            return Ok(Arc::clone(keys));
        }
        let keys = Arc::new(decode()?);
        let mut decoded = self.0.lock();
        if decoded.len() >= GENERATIONS_DECODED_MAX {
            decoded.clear();
        }
        decoded.insert(root, Arc::clone(&keys));
        Ok(keys)
    }
}

impl fmt::Debug for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generations").field("n_decoded", &self.0.lock().len()).finish()
    }
}
