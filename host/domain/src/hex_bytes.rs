//! Bytes of a fixed number, written as lowercase hexadecimal characters.

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
