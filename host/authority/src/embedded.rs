//! An authority in the gateway's process, with its key in memory.

use crate::decision::decide;
use async_trait::async_trait;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::admission::{Admission, PAYLOAD_TYPE, admission_hash};
use gateway_domain::dsse::{self, Envelope};
use gateway_engine::ports::{AdmissionRequest, SignAdmission};
use gateway_engine::{Dependency, Unavailable};
use std::fmt;

/// Signs admission decisions with an Ed25519 key. The key is wiped when this is dropped, and `Debug` does not show it.
///
/// An attacker who controls the process controls the key. A deployment that must withstand a compromised gateway runs its
/// authority elsewhere, and its nodes pin only that authority.
pub struct EmbeddedAuthority {
    key: SigningKey,
}

impl EmbeddedAuthority {
    /// An authority with this Ed25519 seed: 32 random bytes (RFC 8032 section 5.1.5).
    #[must_use]
    pub fn new(seed: &[u8; 32]) -> Self {
        Self { key: SigningKey::from_bytes(seed) }
    }

    /// The public key that nodes and auditors pin, 32 bytes.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }
}

#[async_trait]
impl SignAdmission for EmbeddedAuthority {
    /// # Errors
    /// [`Dependency::Authority`] when the request is inconsistent; the detail names the inconsistency.
    async fn sign(&self, request: AdmissionRequest<'_>) -> Result<Admission, Unavailable> {
        let decision = decide(&request).map_err(unavailable)?;
        let payload = decision.payload().map_err(unavailable)?;
        let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        let signature = (dsse::key_id(&self.public_key()), self.key.sign(&signed).to_bytes());
        let envelope = Envelope::seal(PAYLOAD_TYPE, &payload, &[signature]);
        Ok(Admission { decision, envelope, admission_hash: admission_hash(&payload) })
    }

    /// Always succeeds, since the key is in memory.
    async fn check(&self) -> Result<(), Unavailable> {
        Ok(())
    }
}

impl fmt::Debug for EmbeddedAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key_id = dsse::key_id(&self.public_key());
        f.debug_struct("EmbeddedAuthority").field("key_id", &key_id).finish_non_exhaustive()
    }
}

fn unavailable(why: impl fmt::Display) -> Unavailable {
    Unavailable::new(Dependency::Authority, why.to_string())
}
