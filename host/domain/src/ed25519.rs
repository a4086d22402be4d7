//! Ed25519 signatures, always checked strictly: the one place of the domain that does.
//!
//! The plain check of RFC 8032, section 5.1.7, leaves room: keys and commitments of small order verify messages that
//! nobody signed, and what one library takes another refuses. The strict one refuses all of those.

use ed25519_dalek::{Signature, VerifyingKey};

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// The key of these bytes (RFC 8032, section 5.1.2). None when they are no point of the curve.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        VerifyingKey::from_bytes(bytes).ok().map(Self)
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Whether it is of small order: a key whose signatures anybody can make.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.0.is_weak()
    }

    /// Whether the key's owner signed exactly this message. A key or a commitment of small order never verifies
    /// anything, nor does a second form of the same signature.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl From<VerifyingKey> for PublicKey {
    fn from(key: VerifyingKey) -> Self {
        Self(key)
    }
}
