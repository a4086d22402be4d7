//! The signature schemes of keys, and their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The signature scheme of a key, fixed at key generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SignatureProfile {
    /// FROST(Ed25519, SHA-512) of RFC 9591 section 6.1. Signatures are RFC 8032 Ed25519.
    FrostEd25519Sha512,
    /// FROST(secp256k1, SHA-256) with the Taproot changes. Signatures are BIP-340, public keys x-only.
    FrostSecp256k1Sha256Tr,
}

/// No profile has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a signature profile")]
pub struct UnknownProfile(String);

impl SignatureProfile {
    /// All profiles, in the order of their codes.
    pub const ALL: [Self; 2] = [Self::FrostEd25519Sha512, Self::FrostSecp256k1Sha256Tr];

    /// The name in JSON and in the API, which [`FromStr`] parses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FrostEd25519Sha512 => "frost-ed25519-sha512",
            Self::FrostSecp256k1Sha256Tr => "frost-secp256k1-sha256-tr",
        }
    }

    /// The profile's byte in stored encodings. A code must never be reused for another profile.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::FrostEd25519Sha512 => 1,
            Self::FrostSecp256k1Sha256Tr => 2,
        }
    }

    /// The inverse of [`code`](Self::code).
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.code() == code)
    }
}

impl fmt::Display for SignatureProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SignatureProfile {
    type Err = UnknownProfile;

    /// Case matters.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|profile| profile.name() == name);
        known.ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

impl TryFrom<String> for SignatureProfile {
    type Error = UnknownProfile;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<SignatureProfile> for String {
    fn from(profile: SignatureProfile) -> Self {
        profile.name().to_owned()
    }
}
