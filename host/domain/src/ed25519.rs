//! Ed25519 signatures, always verified strictly. All Ed25519 verification in this crate uses this module.
//!
//! Plain verification (RFC 8032, section 5.1.7) leaves room: keys and commitments of small order verify messages that
//! no one signed, and libraries disagree about some signatures. Strict verification rejects all of those.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

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
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; SIGNATURE_BYTES]);

/// The text is not exactly 128 lowercase hexadecimal characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 128 lowercase hexadecimal characters")]
pub struct InvalidSignature;

impl Signature {
    /// Wraps 64 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; SIGNATURE_BYTES]) -> Self {
        Self(bytes)
    }

    /// The 64 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.0
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Signature {
    type Err = InvalidSignature;

    fn from_str(text: &str) -> Result<Self, InvalidSignature> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidSignature);
        }
        let mut bytes = [0; SIGNATURE_BYTES];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidSignature)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
