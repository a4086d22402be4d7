//! Identifiers, parsed and printed.

use crate::canonical;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// 32 bytes, written as 64 lowercase hexadecimal characters (the contract's `Hex32`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex32([u8; 32]);

/// The text is not exactly 64 lowercase hexadecimal characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 64 lowercase hexadecimal characters")]
pub struct InvalidHex32;

impl Hex32 {
    /// 32 zero bytes: the value before the first of a hash chain, and of a hash that does not exist yet.
    pub const ZERO: Self = Self([0; 32]);

    /// Wraps 32 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hex32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Hex32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hex32 {
    type Err = InvalidHex32;

    fn from_str(text: &str) -> Result<Self, InvalidHex32> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidHex32);
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidHex32)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Hex32 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut buffer = [0; 64];
        hex::encode_to_slice(self.0, &mut buffer).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(std::str::from_utf8(&buffer).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Hex32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

macro_rules! hex32_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Hex32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidHex32;

            fn from_str(text: &str) -> Result<Self, InvalidHex32> {
                text.parse().map(Self)
            }
        }
    };
}

hex32_id! {
    /// The permanent id of an operation, derived from its idempotency key ([`crate::intent::operation_id`]).
    OperationId
}
hex32_id! {
    /// The permanent id of a key, derived from tenant and key reference ([`crate::intent::key_id`]).
    KeyId
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// A tenant. Its callers see only its own operations and keys.
    Tenant
}
name_type! {
    /// The caller's name for a key, unique within a tenant.
    KeyRef
}
name_type! {
    /// The name of an epoch, 1 to 128 characters. A key never uses a name twice.
    EpochName
}

impl EpochName {
    /// The contract's `target_epoch_hex`: the name itself when it is a Hex32, else `SHA-256("svc/epoch-name/v1" || name)`.
    #[must_use]
    pub fn hex32(&self) -> Hex32 {
        let tagged = |_| canonical::digest_bytes("svc/epoch-name/v1", self.0.as_bytes());
        self.0.parse().unwrap_or_else(tagged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex32_is_exactly_64_lowercase_characters() {
        let text = "ab".repeat(32);
        assert_eq!(text.parse::<Hex32>().unwrap().to_string(), text);
        for wrong in [&text[1..], &text.to_uppercase(), &format!("{text}00"), "", &"zz".repeat(32)] {
            assert_eq!(wrong.parse::<Hex32>(), Err(InvalidHex32));
        }
    }
}
