//! Identifiers, parsed and printed.

use crate::canonical;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// `N` bytes, written as `2 * N` lowercase hexadecimal characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HexBytes<const N: usize>([u8; N]);

/// 32 bytes, written as 64 lowercase hexadecimal characters (`Hex32` in the API).
pub type Hex32 = HexBytes<32>;

/// The text is not exactly this many lowercase hexadecimal characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {n_characters} lowercase hexadecimal characters")]
pub struct InvalidHex {
    n_characters: usize,
}

impl Hex32 {
    /// 32 zero bytes: the previous hash of the first entry of a chain, and the placeholder for a hash that does not exist yet.
    pub const ZERO: Self = Self([0; 32]);
}

impl<const N: usize> HexBytes<N> {
    /// Wraps the bytes.
    #[must_use]
    pub const fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> fmt::Display for HexBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl<const N: usize> fmt::Debug for HexBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> FromStr for HexBytes<N> {
    type Err = InvalidHex;

    fn from_str(text: &str) -> Result<Self, InvalidHex> {
        let invalid = InvalidHex { n_characters: 2 * N };
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(invalid);
        }
        let mut bytes = [0; N];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| invalid)?;
        Ok(Self(bytes))
    }
}

impl<const N: usize> Serialize for HexBytes<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut buffer = [[0; 2]; N];
        let buffer = buffer.as_flattened_mut();
        hex::encode_to_slice(self.0, buffer).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(std::str::from_utf8(buffer).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de, const N: usize> Deserialize<'de> for HexBytes<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl<const N: usize> utoipa::PartialSchema for HexBytes<N> {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some(format!("^[0-9a-f]{{{}}}$", 2 * N)))
            .description(Some(format!("{N} bytes, lowercase hexadecimal.")))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl<const N: usize> utoipa::ToSchema for HexBytes<N> {
    fn name() -> std::borrow::Cow<'static, str> {
        format!("Hex{N}").into()
    }
}

macro_rules! hex32_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
            type Err = InvalidHex;

            fn from_str(text: &str) -> Result<Self, InvalidHex> {
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
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// The name of an epoch. In an accepted operation it has 1 to 128 characters, and no earlier epoch of the key has it.
    EpochName
}

impl EpochName {
    /// `target_epoch_hex` in the API: the name itself when it is a Hex32, else `SHA-256("svc/epoch-name/v1" || name)`.
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
            assert_eq!(wrong.parse::<Hex32>(), Err(InvalidHex { n_characters: 64 }));
        }
    }
}
