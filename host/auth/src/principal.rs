//! The caller, and the check that a request's `client` agrees with it.

use crate::Scope;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gateway_domain::binding::{ClientBinding, CredentialDigest};
use gateway_domain::ids::{Hex32, Tenant};
use gateway_domain::names::is_same_person;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A caller of the development bypass without identity headers. It may do everything, under any name in the request.
    Unrestricted,
    /// An authenticated caller.
    Identified(Identity),
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The calling system.
    pub client_id: String,
    /// The person or service account.
    pub subject_id: String,
    /// Roles held.
    pub roles: Vec<String>,
    /// Scopes granted.
    pub scopes: Vec<String>,
    /// The tenant; `None` means the tenant `default`.
    pub tenant: Option<Tenant>,
    /// The token's id (`jti`), if it has one.
    pub token_jti: Option<TokenId>,
    /// SHA-256 of the certificate that the client proved to have.
    pub cert_sha256: Option<Hex32>,
    /// The claims of its token that policies may read, as facts by name.
    pub facts: Arc<BTreeMap<String, String>>,
}

/// The id of a token. It identifies a credential, so `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenId(String);

/// The request's `client` is not the authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`client.{member}` is not the authenticated caller's")]
pub struct BindingMismatch {
    /// The member that differs.
    pub member: &'static str,
}

impl TokenId {
    /// A token id.
    #[must_use]
    pub const fn new(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenId(..)")
    }
}

impl Principal {
    /// Whether the caller's scopes satisfy this one.
    #[must_use]
    pub fn has_scope(&self, scope: Scope) -> bool {
        match self {
            Self::Unrestricted => true,
            Self::Identified(identity) => scope.is_satisfied_by(&identity.scopes),
        }
    }

    /// The claims of its token that policies may read, as facts by name.
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, String> {
        match self {
            Self::Unrestricted => BTreeMap::new(),
            Self::Identified(identity) => BTreeMap::clone(&identity.facts),
        }
    }

    /// The caller for evidence: the authenticated identity if there is one, else the request's claim. `salt`: 32 random bytes,
    /// used for this request only.
    ///
    /// # Errors
    /// [`BindingMismatch`] when the request names another caller, roles or scopes that the caller does not have, or a
    /// credential that was not presented.
    pub fn bind(&self, claimed: ClientBinding, salt: Hex32) -> Result<ClientBinding, BindingMismatch> {
        match self {
            Self::Unrestricted => Ok(claimed),
            Self::Identified(identity) => identity.bind(&claimed, salt),
        }
    }
}

impl Identity {
    /// The caller for evidence when the request names none. `salt`: 32 random bytes, used for this request only.
    #[must_use]
    pub fn binding(&self, salt: Hex32) -> ClientBinding {
        ClientBinding {
            client_id: self.client_id.clone(),
            subject_id: self.subject_id.clone(),
            roles: self.roles.clone(),
            registered: None,
            scopes: self.scopes.clone(),
            cert_sha256: self.cert_sha256.map(|hash| CredentialDigest::of(salt, &hash.to_string())),
            token_jti: self.token_jti.as_ref().map(|id| CredentialDigest::of(salt, &id.0)),
            tenant: self.tenant.clone(),
        }
    }

    fn bind(&self, claimed: &ClientBinding, salt: Hex32) -> Result<ClientBinding, BindingMismatch> {
        let authenticated = self.binding(salt);
        let subset = |claimed: &[String], held: &[String]| claimed.iter().all(|one| held.contains(one));
        let agreement = [
            ("client_id", claimed.client_id == self.client_id),
            ("subject_id", is_same_person(&claimed.subject_id, &self.subject_id)),
            ("tenant", claimed.tenant.is_none() || claimed.tenant() == authenticated.tenant()),
            ("roles", subset(&claimed.roles, &self.roles)),
            ("scopes", subset(&claimed.scopes, &self.scopes)),
            ("token_jti", claimed.token_jti.as_ref().is_none_or(|claimed| self.has_token(claimed))),
            ("cert_sha256", claimed.cert_sha256.as_ref().is_none_or(|claimed| self.has_certificate(claimed))),
        ];
        match agreement.into_iter().find(|(_, agrees)| !agrees) {
            Some((member, _)) => Err(BindingMismatch { member }),
            None => Ok(authenticated),
        }
    }

    fn has_token(&self, claimed: &CredentialDigest) -> bool {
        self.token_jti.as_ref().is_some_and(|own| claimed.is_of(&own.0))
    }

    /// Whether the claim is about the caller's certificate. A client may claim the hash in lower-case or upper-case
    /// hexadecimal, or in base64url.
    fn has_certificate(&self, claimed: &CredentialDigest) -> bool {
        self.cert_sha256.is_some_and(|own| {
            let hex = own.to_string();
            let forms = [hex.to_uppercase(), BASE64_URL_SAFE_NO_PAD.encode(own.as_bytes()), hex];
            forms.iter().any(|form| claimed.is_of(form))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Hex32 = Hex32::new([7; 32]);
    const CERTIFICATE: Hex32 = Hex32::new([0xab; 32]);

    fn identity() -> Identity {
        Identity {
            client_id: "desk".to_owned(),
            subject_id: "alice".to_owned(),
            roles: vec!["approver".to_owned(), "operator".to_owned()],
            scopes: vec!["operations.sign".to_owned()],
            tenant: Some(Tenant("acme".to_owned())),
            token_jti: Some(TokenId::new("t-1".to_owned())),
            cert_sha256: Some(CERTIFICATE),
            facts: Arc::default(),
        }
    }

    fn claim(text: &str) -> Option<CredentialDigest> {
        Some(CredentialDigest::of(Hex32::new([9; 32]), text))
    }

    fn bound(change: impl Fn(&mut ClientBinding)) -> Result<ClientBinding, &'static str> {
        let mut claimed = ClientBinding { cert_sha256: None, token_jti: None, ..identity().binding(SALT) };
        change(&mut claimed);
        Principal::Identified(identity()).bind(claimed, SALT).map_err(|mismatch| mismatch.member)
    }

    #[test]
    fn evidence_records_the_authenticated_caller_and_not_the_claim() {
        let own = identity().binding(SALT);
        assert!(own.token_jti.as_ref().unwrap().is_of("t-1"));
        assert!(own.cert_sha256.as_ref().unwrap().is_of(&CERTIFICATE.to_string()));
        let forms = [CERTIFICATE.to_string(), CERTIFICATE.to_string().to_uppercase()];
        for form in [&forms[0], &forms[1], "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s"] {
            assert_eq!(bound(|it| it.cert_sha256 = claim(form)), Ok(own.clone()), "{form}");
        }
        assert_eq!(bound(|it| it.token_jti = claim("t-1")), Ok(own.clone()));
        assert_eq!(bound(|it| it.roles = vec!["operator".to_owned()]), Ok(own.clone()));
        assert_eq!(bound(|it| it.scopes.clear()), Ok(own.clone()));
        assert_eq!(bound(|it| it.tenant = None), Ok(own));
    }

    #[test]
    fn a_mismatch_names_the_member_that_differs() {
        let other = || "other".to_owned();
        assert_eq!(bound(|it| it.client_id = other()), Err("client_id"));
        assert_eq!(bound(|it| it.subject_id = other()), Err("subject_id"));
        assert_eq!(bound(|it| it.roles.push(other())), Err("roles"));
        assert_eq!(bound(|it| it.scopes.push(other())), Err("scopes"));
        assert_eq!(bound(|it| it.tenant = Some(Tenant(other()))), Err("tenant"));
        assert_eq!(bound(|it| it.token_jti = claim("t-2")), Err("token_jti"));
        assert_eq!(bound(|it| it.cert_sha256 = claim(&Hex32::ZERO.to_string())), Err("cert_sha256"));
    }

    #[test]
    fn a_claimed_credential_that_was_not_presented_is_a_mismatch() {
        let bare = Principal::Identified(Identity { token_jti: None, cert_sha256: None, ..identity() });
        let claimed = ClientBinding { cert_sha256: None, ..identity().binding(SALT) };
        assert_eq!(bare.bind(claimed, SALT).unwrap_err().member, "token_jti");
        let claimed = ClientBinding { token_jti: None, ..identity().binding(SALT) };
        assert_eq!(bare.bind(claimed, SALT).unwrap_err().member, "cert_sha256");
    }

    #[test]
    fn a_missing_tenant_is_the_default_tenant() {
        let caller = Principal::Identified(Identity { tenant: None, ..identity() });
        let claimed = |tenant: Option<&str>| ClientBinding {
            tenant: tenant.map(|name| Tenant(name.to_owned())),
            token_jti: None,
            cert_sha256: None,
            ..identity().binding(SALT)
        };
        assert!(
            caller.bind(claimed(Some("default")), SALT).is_ok() && caller.bind(claimed(None), SALT).is_ok()
        );
        assert_eq!(caller.bind(claimed(Some("acme")), SALT).unwrap_err().member, "tenant");
    }

    #[test]
    fn debug_output_hides_the_token_id() {
        assert!(!format!("{:?}", identity()).contains("t-1"));
    }
}
