//! Encodings of bytes in JSON. A value has exactly one accepted encoding, so that every alteration is detected.

/// Exactly `N` bytes as lower-case hexadecimal.
pub(crate) mod hex_array {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; N];
        let parsed = hex::decode_to_slice(&text, &mut bytes);
        if parsed.is_err() || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(de::Error::custom(format!("must be {} lowercase hexadecimal characters", 2 * N)));
        }
        Ok(bytes)
    }
}

/// Bytes as base64 of RFC 4648 section 4, padded, with zero trailing bits.
pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        bytes: impl AsRef<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(|_| de::Error::custom("must be base64"))
    }
}
