//! Who the gateway takes the caller for.

use gateway_auth::Principal;
use gateway_domain::approval::{KeyEntry, SigningRule};
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallerView {
    /// Its identity. Absent in development without authentication: then each request names its caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityView>,
    /// Whether approvals are signed: `off`, `optional` or `required`.
    pub signed_approvals: &'static str,
}

/// An authenticated caller.
#[derive(Debug, Serialize, ToSchema)]
pub struct IdentityView {
    /// The calling system.
    pub client_id: String,
    /// The person or service account.
    pub subject_id: String,
    /// The tenant whose operations and keys it sees.
    pub tenant: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The roles in which the registry of approvers lets it sign; empty without an entry.
    pub approver_roles: Vec<String>,
    /// The keys with which it can sign approvals at present, as the registry of approvers lists them (`host/docs/approvals.md`).
    #[schema(value_type = Vec<Object>)]
    pub approver_keys: Vec<Value>,
}

impl CallerView {
    /// The caller, with its keys in the registry.
    #[must_use]
    pub fn new(principal: &Principal, tenant: &Tenant, rule: &SigningRule, now: EpochMs) -> Self {
        let identity = match principal {
            Principal::Unrestricted => None,
            Principal::Identified(identity) => {
                let entry = rule.entry_of(tenant, &identity.subject_id);
                let (approver_roles, keys) =
                    entry.map_or_else(Default::default, |entry| (entry.roles, entry.keys));
                let is_valid = |key: &KeyEntry| key.validity().check(now).is_ok();
                Some(IdentityView {
                    client_id: identity.client_id.clone(),
                    subject_id: identity.subject_id.clone(),
                    tenant: tenant.0.clone(),
                    roles: identity.roles.clone(),
                    scopes: identity.scopes.clone(),
                    approver_roles,
                    approver_keys: keys.iter().filter(|key| is_valid(key)).map(|key| json!(key)).collect(),
                })
            }
        };
        let signed_approvals = match rule {
            SigningRule::Off => "off",
            SigningRule::Optional(_) => "optional",
            SigningRule::Required(_) => "required",
        };
        Self { identity, signed_approvals }
    }
}
