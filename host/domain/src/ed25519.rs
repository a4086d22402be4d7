//! Ed25519 signatures, always verified strictly. All Ed25519 verification in this crate uses this module.
//!
//! Plain verification (RFC 8032, section 5.1.7) leaves room: keys and commitments of small order verify messages that
//! no one signed, and libraries disagree about some signatures. Strict verification rejects all of those.

use crate::ids::HexBytes;
use ed25519_dalek::VerifyingKey;

/// The length of a signature, bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Decodes a public key (RFC 8032, section 5.1.2). `None` when the bytes are not a point of the curve.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        VerifyingKey::from_bytes(bytes).ok().map(Self)
    }

    /// The 32 bytes of the key.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Whether the key is of small order: anyone can make signatures that verify under it.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.0.is_weak()
    }

    /// Whether the key's owner signed exactly this message. A key or commitment of small order never verifies, nor does a
    /// second encoding of the same signature.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.verify_strict(message, &ed25519_dalek::Signature::from_bytes(signature)).is_ok()
    }
}

impl From<VerifyingKey> for PublicKey {
    fn from(key: VerifyingKey) -> Self {
        Self(key)
    }
}

/// A signature that is not verified yet, written as 128 lowercase hexadecimal characters.
pub type Signature = HexBytes<SIGNATURE_BYTES>;
