//! The caller as recorded into an operation's evidence.

use crate::ids::Tenant;
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
    /// SHA-256 of the client certificate, when there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cert_sha256: Option<String>,
    /// Token identifier, when there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token_jti: Option<String>,
    /// The tenant the caller named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<Tenant>,
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
