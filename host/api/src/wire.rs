//! Request and response shapes, and the conversion of requests to domain values. This file has what several endpoints
//! share.

pub mod abort;
pub mod approvals;
pub mod caller;
pub mod custody;
pub mod custody_view;
pub mod decisions;
pub mod events;
pub mod evidence_view;
pub mod external_export;
pub mod names;
pub mod operations;
pub mod policy;
pub mod readiness;
pub mod reject;
pub mod shadow;
pub mod view;
pub mod webhooks;

use crate::error::ApiError;
use crate::state::Options;
use gateway_auth::Principal;
use gateway_domain::binding::{ClientBinding as Binding, CredentialDigest};
use gateway_domain::canonical;
use gateway_domain::ids::{Hex32, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::roster::{Roster, Threshold};
use gateway_engine::EngineError;
use gateway_service::strict::Fault;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The shape of a request's body.
pub trait RequestShape: DeserializeOwned + ToSchema {
    /// The values that were checked and parsed.
    type Checked;

    /// Checks and parses the members, except for [`Self::client`].
    fn check(&self, options: &Options) -> Result<Self::Checked, Fault>;

    /// The caller's claim about itself, in the member `client`.
    fn client(&self) -> Option<&ClientBinding>;
}

/// The caller, as the request states it. It must agree with an authenticated caller, whose identity evidence then records.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ClientBinding {
    /// The calling system.
    #[schema(min_length = 1)]
    pub client_id: String,
    /// The person or service account behind the call.
    #[schema(min_length = 1)]
    pub subject_id: String,
    /// The caller's roles, or some of them.
    pub roles: Vec<String>,
    /// The caller's scopes, or some of them.
    pub scopes: Vec<String>,
    /// SHA-256 of the client certificate. Recorded as a salted digest.
    pub cert_sha256: Option<String>,
    /// The token's id (`jti`). Recorded as a salted digest.
    pub token_jti: Option<String>,
    /// The caller's tenant. Without it, the authenticated caller's, or `default`.
    #[schema(min_length = 1)]
    pub tenant: Option<String>,
}

impl ClientBinding {
    /// Checks the names of the binding at this pointer.
    pub fn check(&self, pointer: &str) -> Result<(), Fault> {
        let check = |name: &str, text: &str| not_empty(&format!("{pointer}/{name}"), text).map(drop);
        check("client_id", &self.client_id)?;
        check("subject_id", &self.subject_id)?;
        self.tenant.as_deref().map_or(Ok(()), |tenant| check("tenant", tenant))
    }

    /// The binding for evidence: the ids of credentials are replaced by salted digests.
    pub fn parse(self) -> Result<Binding, ApiError> {
        Ok(Binding {
            client_id: self.client_id,
            subject_id: self.subject_id,
            roles: self.roles,
            registered: None,
            scopes: self.scopes,
            cert_sha256: self.cert_sha256.as_deref().map(salted_digest).transpose()?,
            token_jti: self.token_jti.as_deref().map(salted_digest).transpose()?,
            tenant: self.tenant.map(Tenant),
        })
    }
}

fn salted_digest(credential: &str) -> Result<CredentialDigest, ApiError> {
    Ok(CredentialDigest::of(fresh_salt()?, credential))
}

/// The caller for evidence: see [`Principal::bind`].
pub fn bind_caller(principal: &Principal, claimed: Binding) -> Result<Binding, ApiError> {
    Ok(principal.bind(claimed, fresh_salt()?)?)
}

/// 32 random bytes.
pub fn fresh_salt() -> Result<Hex32, ApiError> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|_| EngineError::Internal("no randomness for a salt".to_owned()))?;
    Ok(Hex32::new(salt))
}

/// Checks that a string is not empty.
pub fn not_empty(pointer: &str, text: impl Into<String>) -> Result<String, Fault> {
    let text = text.into();
    if text.is_empty() { Err(Fault::at(pointer, "must not be empty")) } else { Ok(text) }
}

/// Parses a list of participants.
pub fn roster(pointer: &str, indices: &[u16]) -> Result<Roster, Fault> {
    Roster::parse(indices).map_err(|impossible| Fault::at(pointer, impossible.to_string()))
}

/// Parses the threshold of these participants, which are at another pointer.
///
/// # Errors
/// [`Fault`] at `/threshold` when so many participants cannot have it.
pub fn threshold(threshold: u16, participants: &Roster, at: &str) -> Result<Threshold, Fault> {
    participants
        .threshold(threshold)
        .map_err(|impossible| Fault::at("/threshold", impossible.to_string()).compared_with(at))
}

/// A digest of the intent and the caller's ids and tenant, by which another body with the same idempotency key is noticed.
/// Roles, scopes and credentials are left out, so that a repetition with a new token has the same digest.
///
/// # Errors
/// `internal_error`, which a parsed request never causes.
pub fn body_digest(intent: &Intent, client: &Binding) -> Result<Hex32, ApiError> {
    canonical::digest("svc/body/v1", &(intent, &client.client_id, &client.subject_id, &client.tenant))
        .map_err(|error| EngineError::from(error).into())
}
