//! The registry of approvers as a file: their tenants, roles and public keys, and what policies may read of them. It may list people who
//! only submit, without keys.
//!
//! ```json
//! {
//!   "format": "svc/approvers/v2",
//!   "approvers": [{
//!     "subject_id": "alice-phone", "person": "alice", "tenants": ["default"], "roles": ["approver"],
//!     "attributes": { "team": "treasury" },
//!     "keys": [
//!       { "kind": "ed25519", "public_key": "<64 hexadecimal>", "not_after_ms": 1830297600000 },
//!       { "kind": "webauthn", "credential_id": "<base64url>", "algorithm": "ES256", "public_key": "<130 hexadecimal>",
//!         "rp_id": "approve.example", "origins": ["https://approve.example"] }
//!     ]
//!   }, { "subject_id": "carol", "tenants": ["default"], "attributes": { "team": "sales" } }]
//! }
//! ```

use super::{Base64Url, limits};
use crate::ids::Hex32;
#[cfg(doc)]
use crate::people::Registered;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The file's `format`.
pub(super) const FORMAT: &str = "svc/approvers/v2";

/// The `format` of files without persons and attributes, in which each entry has keys.
const FORMAT_1: &str = "svc/approvers/v1";

/// The entry in `tenants` that stands for all tenants.
pub(super) const ANY_TENANT: &str = "*";

/// The registry file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproversFile {
    /// `svc/approvers/v2`.
    pub format: String,
    /// The approvers, in any order.
    pub approvers: Vec<ApproverEntry>,
}

/// An approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproverEntry {
    /// The subject id, as the gateway authenticates it.
    pub subject_id: String,
    /// See [`Registered::person`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub person: Option<String>,
    /// The tenants to whose operations the entry applies; `*` alone for all of them.
    pub tenants: Vec<String>,
    /// The roles that it may approve in; absent without keys.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roles: Vec<String>,
    /// See [`Registered::attributes`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub attributes: BTreeMap<String, String>,
    /// Its keys, including revoked ones; absent for a subject that approves nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub keys: Vec<KeyEntry>,
}

/// The time in which a key may be used, epoch milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// The first valid instant.
    pub not_before_ms: Option<u64>,
    /// The first instant that is no longer valid.
    pub not_after_ms: Option<u64>,
    /// The time of the revocation, from which on the key is not valid.
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
        /// The credential's id, as the authenticator gives it.
        credential_id: Base64Url,
        /// The signature algorithm.
        algorithm: Algorithm,
        /// The public key, hexadecimal: for ES256 the uncompressed point of 65 bytes, for EdDSA 32 bytes.
        public_key: String,
        /// The relying party that the credential was created for.
        rp_id: String,
        /// The origins at which it may be used.
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

/// The signature algorithm of a credential, by its JOSE name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// The reason why a registry is invalid. Each displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The file is larger than the limit.
    #[error("the registry has more than {} bytes", limits::REGISTRY_BYTES_MAX)]
    TooLarge,
    /// The file is not JSON, does not have exactly the expected members, or has too many approvers.
    #[error("not a registry of approvers: {0}")]
    Shape(String),
    /// The file has another format.
    #[error("the registry has format `{0}` instead of `{FORMAT}`{hint}", hint = if .0 == FORMAT_1 { CONVERT } else { "" })]
    Format(String),
    /// The file to be converted has another format than the one before.
    #[error("the registry has format `{0}` instead of `{FORMAT_1}`")]
    NotConverted(String),
    /// An entry is invalid.
    #[error("approver `{subject_id}`: {what}")]
    Entry {
        /// The approver.
        subject_id: String,
        /// What is invalid.
        what: String,
    },
    /// Two entries have the same key or credential, or are for the same subject and tenant.
    #[error("{0}")]
    Duplicate(String),
}

/// What to do with a file of the format before.
const CONVERT: &str = ": `operation-gateway approvers convert` converts it";

impl ApproversFile {
    /// Converts a file of the format before, `svc/approvers/v1`.
    ///
    /// # Errors
    /// As [`Self::parse`], and [`RegistryError::Format`].
    pub fn convert(text: &[u8]) -> Result<Self, RegistryError> {
        let file = Self::parse(text)?;
        if file.format != FORMAT_1 {
            return Err(RegistryError::NotConverted(file.format));
        }
        let is_newer = |entry: &&ApproverEntry| entry.person.is_some() || !entry.attributes.is_empty();
        if let Some(entry) = file.approvers.iter().find(is_newer) {
            let what = format!("`{FORMAT_1}` has no persons and attributes");
            return Err(RegistryError::Entry { subject_id: entry.subject_id.clone(), what });
        }
        Ok(Self { format: FORMAT.to_owned(), ..file })
    }

    /// Parses a file strictly: no unknown, missing or duplicate members.
    ///
    /// # Errors
    /// [`RegistryError::TooLarge`], [`RegistryError::Shape`].
    pub fn parse(text: &[u8]) -> Result<Self, RegistryError> {
        if text.len() > limits::REGISTRY_BYTES_MAX {
            return Err(RegistryError::TooLarge);
        }
        let shape = |error: serde_json::Error| RegistryError::Shape(error.to_string());
        let file: Self = serde_json::from_slice(text).map_err(shape)?;
        // serde accepts an array for an object, and null for an omitted member: compare with the one accepted form.
        let (given, accepted) = (serde_json::from_slice::<Value>(text), serde_json::to_value(&file));
        if given.map_err(shape)? != accepted.map_err(shape)? {
            let what = "objects must be written with their names, and absent members left out";
            return Err(RegistryError::Shape(what.to_owned()));
        }
        Ok(file)
    }
}

impl KeyEntry {
    /// The time in which the key may be used.
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
