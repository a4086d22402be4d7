//! The registry of approvers as a file: who they are, in which tenants and roles, and their public keys.
//!
//! ```json
//! {
//!   "format": "svc/approvers/v1",
//!   "approvers": [{
//!     "subject_id": "alice", "tenants": ["default"], "roles": ["approver"],
//!     "keys": [
//!       { "kind": "ed25519", "public_key": "<64 hexadecimal>", "not_after_ms": 1830297600000 },
//!       { "kind": "webauthn", "credential_id": "<base64url>", "algorithm": "ES256", "public_key": "<130 hexadecimal>",
//!         "rp_id": "approve.example", "origins": ["https://approve.example"] }
//!     ]
//!   }]
//! }
//! ```

use super::{Base64Url, limits};
use crate::ids::Hex32;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The file's `format`.
pub(super) const FORMAT: &str = "svc/approvers/v1";

/// Stands for every tenant.
pub(super) const ANY_TENANT: &str = "*";

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproversFile {
    /// `svc/approvers/v1`.
    pub format: String,
    /// In any order.
    pub approvers: Vec<ApproverEntry>,
}

/// One person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproverEntry {
    /// As the gateway authenticates it.
    pub subject_id: String,
    /// Whose operations it may approve; `*` alone is everybody's.
    pub tenants: Vec<String>,
    /// The roles it may approve in.
    pub roles: Vec<String>,
    /// Its keys, those revoked among them.
    pub keys: Vec<KeyEntry>,
}

/// When a key may be used. Instants are epoch milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub not_before_ms: Option<u64>,
    /// Not from this instant on.
    pub not_after_ms: Option<u64>,
    /// Taken back at this instant.
    pub revoked_at_ms: Option<u64>,
}

/// One key or credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyEntry {
    /// A plain Ed25519 key.
    Ed25519 {
        /// The public key.
        public_key: Hex32,
        /// See [`Validity`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_before_ms: Option<u64>,
        /// See [`Validity`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_after_ms: Option<u64>,
        /// See [`Validity`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        revoked_at_ms: Option<u64>,
    },
    /// A WebAuthn credential.
    Webauthn {
        /// As the authenticator names it.
        credential_id: Base64Url,
        /// What it signs with.
        algorithm: Algorithm,
        /// Hexadecimal: for ES256 the uncompressed point of 65 bytes, for EdDSA 32 bytes.
        public_key: String,
        /// The relying party it was made for.
        rp_id: String,
        /// Where it may be used.
        origins: Vec<String>,
        /// See [`Validity`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_before_ms: Option<u64>,
        /// See [`Validity`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_after_ms: Option<u64>,
        /// See [`Validity`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        revoked_at_ms: Option<u64>,
    },
}

/// What a credential signs with, by its JOSE name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// Why a registry is of no use. Each displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Larger than anybody's.
    #[error("the registry has more than {} bytes", limits::REGISTRY_BYTES_MAX)]
    TooLarge,
    /// Not JSON, or not these members.
    #[error("not a registry of approvers: {0}")]
    Shape(String),
    /// Another form.
    #[error("the registry has format `{0}`; `{FORMAT}` is known here")]
    Format(String),
    /// An entry that is impossible.
    #[error("approver `{subject_id}`: {what}")]
    Entry {
        /// Whose.
        subject_id: String,
        /// What is wrong with it.
        what: String,
    },
    /// Two entries that contradict each other.
    #[error("{0}")]
    Duplicate(String),
}

impl ApproversFile {
    /// Reads a file: its members each once, and none besides.
    ///
    /// # Errors
    /// [`RegistryError::TooLarge`], [`RegistryError::Shape`].
    pub fn parse(text: &[u8]) -> Result<Self, RegistryError> {
        if text.len() > limits::REGISTRY_BYTES_MAX {
            return Err(RegistryError::TooLarge);
        }
        let shape = |error: serde_json::Error| RegistryError::Shape(error.to_string());
        let file: Self = serde_json::from_slice(text).map_err(shape)?;
        // serde takes an array where an object is due, and null for what is left out: one registry has one reading.
        let (stands, is) = (serde_json::from_slice::<Value>(text), serde_json::to_value(&file));
        if stands.map_err(shape)? != is.map_err(shape)? {
            let what = "objects must be written with their names, and what there is none of left out";
            return Err(RegistryError::Shape(what.to_owned()));
        }
        Ok(file)
    }
}

impl KeyEntry {
    /// When it may be used.
    #[must_use]
    pub const fn validity(&self) -> Validity {
        match *self {
            Self::Ed25519 { not_before_ms, not_after_ms, revoked_at_ms, .. }
            | Self::Webauthn { not_before_ms, not_after_ms, revoked_at_ms, .. } => {
                Validity { not_before_ms, not_after_ms, revoked_at_ms }
            }
        }
    }
}
