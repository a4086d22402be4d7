//! An approver's signature, as it is sent, stored and shown. Each value has exactly one text.

use crate::ids::Hex32;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// An approver's signature, with the id of its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalSignature {
    /// An Ed25519 signature (RFC 8032) over [`Statement::message`](super::Statement::message).
    Ed25519 {
        /// The approver's public key.
        public_key: Hex32,
        /// The signature.
        signature: Hex64,
    },
    /// A WebAuthn assertion whose challenge is [`Statement::digest`](super::Statement::digest).
    Webauthn {
        /// The id of the approver's credential.
        credential_id: Base64Url,
        /// The authenticator data (WebAuthn level 3, section 6.1).
        authenticator_data: Base64Url,
        /// The client data (section 5.8.1), exactly as signed.
        client_data_json: Base64Url,
        /// The signature over authenticator data and the hash of client data.
        signature: Base64Url,
    },
}

impl ApprovalSignature {
    /// The value of `kind`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ed25519 { .. } => "ed25519",
            Self::Webauthn { .. } => "webauthn",
        }
    }
}

/// 64 bytes, written as 128 lowercase hexadecimal characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hex64(pub [u8; 64]);

/// Bytes, written in base64url without padding (RFC 4648, section 5).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Base64Url(pub Vec<u8>);

/// The text is not in the required form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {0}")]
pub struct InvalidText(&'static str);

impl FromStr for Hex64 {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let invalid = InvalidText("128 lowercase hexadecimal characters");
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(invalid);
        }
        let mut bytes = [0; 64];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| invalid)?;
        Ok(Self(bytes))
    }
}

impl FromStr for Base64Url {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let bytes = URL_SAFE_NO_PAD.decode(text);
        bytes.map(Self).map_err(|_| InvalidText("base64url without padding"))
    }
}

impl fmt::Display for Hex64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Display for Base64Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(&self.0))
    }
}

macro_rules! as_text {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text! { Hex64 Base64Url }
