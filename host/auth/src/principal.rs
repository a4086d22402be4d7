//! A caller, and whether a request's `client` agrees with it.

use crate::Scope;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::Tenant;

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The development bypass without identity headers: may do everything, as whoever its requests say.
    Unrestricted,
    /// Somebody.
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
    /// The tenant.
    pub tenant: Option<Tenant>,
}

/// The request's `client` is not the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`client.{member}` is not the authenticated caller's")]
pub struct BindingMismatch {
    /// The member that differs.
    pub member: &'static str,
}

impl Principal {
    /// Whether the caller may do what needs this scope.
    #[must_use]
    pub fn holds(&self, scope: Scope) -> bool {
        match self {
            Self::Unrestricted => true,
            Self::Identified(identity) => scope.is_held(&identity.scopes),
        }
    }

    /// The caller as it goes into evidence: the authenticated identity where there is one, else what the request says.
    ///
    /// # Errors
    /// [`BindingMismatch`] when the request names somebody else, or roles and scopes the caller does not have.
    pub fn bind(&self, claimed: ClientBinding) -> Result<ClientBinding, BindingMismatch> {
        match self {
            Self::Unrestricted => Ok(claimed),
            Self::Identified(identity) => identity.bind(claimed),
        }
    }
}

impl Identity {
    /// The caller as it goes into evidence when the request does not say.
    #[must_use]
    pub fn binding(&self) -> ClientBinding {
        ClientBinding {
            client_id: self.client_id.clone(),
            subject_id: self.subject_id.clone(),
            roles: self.roles.clone(),
            scopes: self.scopes.clone(),
            cert_sha256: None,
            token_jti: None,
            tenant: self.tenant.clone(),
        }
    }

    fn bind(&self, claimed: ClientBinding) -> Result<ClientBinding, BindingMismatch> {
        let subset = |claimed: &[String], held: &[String]| claimed.iter().all(|one| held.contains(one));
        let tenant_agrees = claimed.tenant.is_none() || claimed.tenant == self.tenant;
        let agreement = [
            ("client_id", claimed.client_id == self.client_id),
            ("subject_id", claimed.subject_id == self.subject_id),
            ("tenant", tenant_agrees),
            ("roles", subset(&claimed.roles, &self.roles)),
            ("scopes", subset(&claimed.scopes, &self.scopes)),
        ];
        if let Some((member, _)) = agreement.into_iter().find(|(_, agrees)| !agrees) {
            return Err(BindingMismatch { member });
        }
        let ClientBinding { cert_sha256, token_jti, .. } = claimed;
        Ok(ClientBinding { cert_sha256, token_jti, ..self.binding() })
    }
}
