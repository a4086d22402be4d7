//! The authority's key, and the decisions that it signs.

use crate::decision::{Refusal, decide};
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::admission::{Admission, AdmissionDecision, PAYLOAD_TYPE, admission_hash};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::operation::AdmissionRequest;
use std::fmt;

/// Signs admission decisions with an Ed25519 key. The key is wiped when this is dropped, and `Debug` does not show it.
///
/// An attacker who controls the process controls the key. A deployment that must withstand a compromised gateway runs its
/// authority in a process of its own, and its nodes pin only that authority.
pub struct Authority {
    key: SigningKey,
}

impl Authority {
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

    /// Signs the decision of a consistent request.
    ///
    /// # Errors
    /// [`Refusal`], which names the inconsistency.
    pub fn sign(&self, request: &AdmissionRequest<'_>) -> Result<Admission, Refusal> {
        Ok(self.sign_decision(decide(request)?)?)
    }

    pub(crate) fn sign_decision(&self, decision: AdmissionDecision) -> Result<Admission, CanonicalError> {
        let payload = decision.payload()?;
        let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        let signature = (dsse::key_id(&self.public_key()), self.key.sign(&signed).to_bytes());
        let envelope = Envelope::seal(PAYLOAD_TYPE, &payload, &[signature]);
        Ok(Admission { decision, envelope, admission_hash: admission_hash(&payload) })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key_id = dsse::key_id(&self.public_key());
        f.debug_struct("Authority").field("key_id", &key_id).finish_non_exhaustive()
    }
}
