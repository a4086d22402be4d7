//! An approver's signature, as it is sent, stored and shown. Each value is written in exactly one way.

use crate::ed25519::Signature;
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
        signature: Signature,
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

/// Bytes, written in base64url without padding (RFC 4648, section 5).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Base64Url(pub Vec<u8>);

/// The text is not base64url without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be base64url without padding")]
pub struct InvalidBase64Url;

impl FromStr for Base64Url {
    type Err = InvalidBase64Url;

    fn from_str(text: &str) -> Result<Self, InvalidBase64Url> {
        URL_SAFE_NO_PAD.decode(text).map(Self).map_err(|_| InvalidBase64Url)
    }
}

impl fmt::Display for Base64Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(&self.0))
    }
}

impl fmt::Debug for Base64Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Base64Url {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Base64Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
