//! The client, as recorded in an operation's evidence.

use crate::canonical;
use crate::ids::{Hex32, Tenant};
use crate::people::{self, Registered};
use serde::{Deserialize, Serialize};

/// The client that submitted an operation.
// As authenticated; in bypass mode, as the request names it.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Submitter))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientBinding {
    /// The client's id.
    pub client_id: String,
    /// The subject's id.
    pub subject_id: String,
    /// The subject's roles.
    pub roles: Vec<String>,
    /// What the gateway's registry of approvers said of the subject at the submission; absent if nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registered: Option<Box<Registered>>,
    /// The caller's scopes.
    pub scopes: Vec<String>,
    /// Salted digest of the client certificate's SHA-256, if there is a certificate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub cert_sha256: Option<CredentialDigest>,
    /// Salted digest of the token's `jti`, if there is a token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub token_jti: Option<CredentialDigest>,
    /// The tenant, if the caller named or had one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<Tenant>,
}

/// A salted digest of a credential's identifier. It does not reveal the identifier, but a holder of the credential
/// can prove that it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialDigest {
    /// 32 random bytes, generated for each request.
    pub salt: Hex32,
    /// `SHA-256("svc/credential/v1" || salt || UTF-8 bytes)`.
    pub sha256: Hex32,
}

impl CredentialDigest {
    /// The digest of a credential's identifier.
    #[must_use]
    pub fn of(salt: Hex32, credential: &str) -> Self {
        let salted = [salt.as_bytes(), credential.as_bytes()].concat();
        Self { salt, sha256: canonical::digest_bytes("svc/credential/v1", &salted) }
    }

    /// Whether this is the digest of the credential's identifier.
    #[must_use]
    pub fn is_of(&self, credential: &str) -> bool {
        Self::of(self.salt, credential) == *self
    }
}

/// The tenant of clients without one.
pub const TENANT_DEFAULT: &str = "default";

impl ClientBinding {
    /// The person who submitted: see [`people::person`].
    #[must_use]
    pub fn person(&self) -> &str {
        people::person(&self.subject_id, self.registered.as_deref())
    }

    /// The tenant that operations of this client belong to.
    #[must_use]
    pub fn tenant(&self) -> Tenant {
        self.tenant.clone().unwrap_or_else(|| Tenant(TENANT_DEFAULT.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_digest_matches_its_credential_and_does_not_reveal_it() {
        let digest = CredentialDigest::of(Hex32::new([1; 32]), "jti-1");
        assert!(digest.is_of("jti-1") && !digest.is_of("jti-2"));
        assert_ne!(digest.sha256, CredentialDigest::of(Hex32::new([2; 32]), "jti-1").sha256);
        assert!(!format!("{digest:?}").contains("jti-1"));
    }
}
