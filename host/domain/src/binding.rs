//! The caller as recorded into an operation's evidence.

use crate::canonical;
use crate::ids::{Hex32, Tenant};
use serde::{Deserialize, Serialize};

/// The contract's `ClientBinding`: who asked, as the gateway authenticated it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientBinding {
    /// The calling system.
    pub client_id: String,
    /// The person or service account behind the call.
    pub subject_id: String,
    /// Roles, in the caller's order.
    pub roles: Vec<String>,
    /// Scopes, in the caller's order.
    pub scopes: Vec<String>,
    /// Of the SHA-256 of the client certificate, when there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cert_sha256: Option<CredentialDigest>,
    /// Of the token identifier, when there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token_jti: Option<CredentialDigest>,
    /// The tenant the caller named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<Tenant>,
}

/// What is kept of what identifies a credential: whoever holds the credential can prove that it is meant, and nobody
/// learns it from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialDigest {
    /// 32 random bytes, of this request alone.
    pub salt: Hex32,
    /// `SHA-256("svc/credential/v1" || salt || UTF-8 bytes)`.
    pub sha256: Hex32,
}

impl CredentialDigest {
    /// The digest of a credential's name.
    #[must_use]
    pub fn of(salt: Hex32, credential: &str) -> Self {
        let salted = [salt.as_bytes(), credential.as_bytes()].concat();
        Self { salt, sha256: canonical::digest_bytes("svc/credential/v1", &salted) }
    }

    /// Whether it is of this credential.
    #[must_use]
    pub fn is_of(&self, credential: &str) -> bool {
        Self::of(self.salt, credential) == *self
    }
}

/// The tenant of callers that name none.
pub const TENANT_DEFAULT: &str = "default";

impl ClientBinding {
    /// The tenant an operation of this caller belongs to.
    #[must_use]
    pub fn tenant(&self) -> Tenant {
        self.tenant.clone().unwrap_or_else(|| Tenant(TENANT_DEFAULT.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_known_again_and_not_told() {
        let digest = CredentialDigest::of(Hex32::new([1; 32]), "jti-1");
        assert!(digest.is_of("jti-1") && !digest.is_of("jti-2"));
        assert_ne!(digest.sha256, CredentialDigest::of(Hex32::new([2; 32]), "jti-1").sha256);
        assert!(!format!("{digest:?}").contains("jti-1"));
    }
}
