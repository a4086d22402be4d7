//! Request and response shapes of the contract, and how requests become domain values. This module has those that
//! several endpoints share.

pub mod approvals;
pub mod bundles;
pub mod custody;
pub mod custody_view;
pub mod log;
pub mod names;
pub mod operations;
pub mod policy;
pub mod readiness;
pub mod view;

use crate::error::ApiError;
use crate::strict::Fault;
use gateway_auth::Principal;
use gateway_domain::binding::{ClientBinding as Binding, CredentialDigest};
use gateway_domain::canonical;
use gateway_domain::ids::{Hex32, Tenant};
use gateway_domain::intent::{Intent, PublicationMode as Mode};
use gateway_domain::roster::{PARTICIPANT_INDEX_MAX, PARTICIPANTS_MAX, Roster, THRESHOLD_MIN};
use gateway_engine::EngineError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, Object, Type};

/// The caller binding recorded into the operation's evidence.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ClientBinding {
    /// The calling system.
    #[schema(min_length = 1)]
    pub client_id: String,
    /// The person or service account behind the call.
    #[schema(min_length = 1)]
    pub subject_id: String,
    /// The caller's roles.
    pub roles: Vec<String>,
    /// The caller's scopes.
    pub scopes: Vec<String>,
    /// SHA-256 of the client certificate.
    pub cert_sha256: Option<String>,
    /// The token's id (`jti`).
    pub token_jti: Option<String>,
    /// The caller's tenant.
    #[schema(min_length = 1)]
    pub tenant: Option<String>,
}

impl ClientBinding {
    /// Checks what the shape cannot express, and replaces the ids of credentials by salted digests.
    ///
    /// # Errors
    /// [`ApiError`] for an empty name, or when the operating system gives no randomness.
    pub fn parse(self) -> Result<Binding, ApiError> {
        self.parse_at("/client")
    }

    /// As [`Self::parse`], for a binding at another pointer.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_at(self, pointer: &str) -> Result<Binding, ApiError> {
        let named = |name: &str, text: String| not_empty(&format!("{pointer}/{name}"), text);
        Ok(Binding {
            client_id: named("client_id", self.client_id)?,
            subject_id: named("subject_id", self.subject_id)?,
            roles: self.roles,
            scopes: self.scopes,
            cert_sha256: self.cert_sha256.as_deref().map(salted).transpose()?,
            token_jti: self.token_jti.as_deref().map(salted).transpose()?,
            tenant: self.tenant.map(|tenant| named("tenant", tenant)).transpose()?.map(Tenant),
        })
    }
}

fn salted(credential: &str) -> Result<CredentialDigest, ApiError> {
    Ok(CredentialDigest::of(fresh_salt()?, credential))
}

/// The caller for evidence: see [`Principal::bind`].
///
/// # Errors
/// `client_binding_mismatch`; `internal_error` when the operating system gives no randomness.
pub fn bound(principal: &Principal, claimed: Binding) -> Result<Binding, ApiError> {
    Ok(principal.bind(claimed, fresh_salt()?)?)
}

/// 32 random bytes.
///
/// # Errors
/// `internal_error` when the operating system gives none.
pub fn fresh_salt() -> Result<Hex32, ApiError> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|_| EngineError::Internal("no randomness for a salt".to_owned()))?;
    Ok(Hex32::new(salt))
}

/// The party that publishes an executed operation.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublicationMode {
    /// The caller, with a publish request.
    Manual,
    /// The gateway, right after execution.
    Automatic,
}

impl From<PublicationMode> for Mode {
    fn from(mode: PublicationMode) -> Self {
        match mode {
            PublicationMode::Manual => Self::Manual,
            PublicationMode::Automatic => Self::Automatic,
        }
    }
}

/// A string that must not be empty.
///
/// # Errors
/// [`Fault`] when it is empty.
pub fn not_empty(pointer: &str, text: String) -> Result<String, Fault> {
    if text.is_empty() { Err(Fault::at(pointer, "must not be empty")) } else { Ok(text) }
}

/// The schema of a list of participants that [`Roster::parse`] accepts.
#[must_use]
pub fn participants() -> Array {
    let index = Object::builder()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(PARTICIPANT_INDEX_MAX))
        .description(Some("0-based"));
    Array::builder()
        .items(index)
        .min_items(Some(usize::from(THRESHOLD_MIN)))
        .max_items(Some(PARTICIPANTS_MAX))
        .unique_items(true)
        .description(Some("each once"))
        .build()
}

/// A list of participants.
///
/// # Errors
/// [`Fault`] when the list is not a roster.
pub fn roster(pointer: &str, indices: &[u16]) -> Result<Roster, Fault> {
    Roster::parse(indices).map_err(|impossible| Fault::at(pointer, impossible.to_string()))
}

/// The digest by which a second body under one idempotency key is recognised: the intent and the caller, without the token,
/// so that the same request with a fresh token has the same digest.
///
/// # Errors
/// `internal_error`, which a parsed request never causes.
pub fn body_digest(intent: &Intent, client: &Binding) -> Result<Hex32, ApiError> {
    canonical::digest("svc/body/v1", &(intent, &client.client_id, &client.subject_id, &client.tenant))
        .map_err(|error| EngineError::from(error).into())
}
