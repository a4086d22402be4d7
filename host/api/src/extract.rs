//! Extractors: the caller, the path parameters, the query string and the body of a request.

mod body;
pub mod list;
pub mod query;

pub use body::Body;

use crate::counters;
use crate::error::{ApiError, Code};
use crate::state::App;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use gateway_auth::{Peer, Principal, Scope, Unauthenticated};
use gateway_domain::binding::TENANT_DEFAULT;
use gateway_domain::ids::{KeyRef, OperationId, Tenant};
use gateway_engine::{EngineError, Visibility};
use gateway_service::layers;
use gateway_service::strict::TEXT_BYTES_MAX;
use gateway_service::transport;

/// An authenticated caller that holds the scope of the route.
pub struct Caller {
    /// The caller's identity.
    pub principal: Principal,
}

impl Caller {
    /// The tenants whose records the caller can see.
    #[must_use]
    pub fn visibility(&self) -> Visibility {
        match &self.principal {
            Principal::Unrestricted => Visibility::Everything,
            Principal::Identified(identity) => Visibility::Tenant(
                identity.tenant.clone().unwrap_or_else(|| Tenant(TENANT_DEFAULT.to_owned())),
            ),
        }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // Fails closed when a route uses this extractor but declares no scope.
        let no_scope =
            || EngineError::Internal("the route extracts a caller but declares no scope".to_owned());
        let scope = *parts.extensions.get::<Scope>().ok_or_else(no_scope)?;
        let peer = parts.extensions.get::<transport::Peer>();
        let peer =
            peer.map(|&transport::Peer { address, certificate_sha256 }| Peer { address, certificate_sha256 });
        let principal = app.authenticator().authenticate(&parts.headers, peer.as_ref()).await;
        let principal = principal.inspect_err(record_rejection)?;
        if let Principal::Identified(identity) = &principal {
            let tenant = identity.tenant.as_ref().map_or(TENANT_DEFAULT, |tenant| tenant.0.as_str());
            layers::note_caller(&identity.client_id, tenant);
        }
        if !principal.has_scope(scope) {
            counters::count_refusal("insufficient_scope");
            return Err(ApiError::insufficient_scope(scope));
        }
        Ok(Self { principal })
    }
}

/// Counts and logs the reason, and never the credentials.
fn record_rejection(why: &Unauthenticated) {
    counters::count_refusal(why.reason());
    tracing::info!(reason = why.reason(), "caller refused");
}

/// The header `Idempotency-Mismatch: reject`: the caller wants 409, not the existing operation, when its idempotency key was
/// first used with another body.
pub struct RejectsMismatch(pub bool);

/// The name of that header.
pub const IDEMPOTENCY_MISMATCH: &str = "idempotency-mismatch";

impl<S: Send + Sync> FromRequestParts<S> for RejectsMismatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_MISMATCH).iter().peekable();
        let is_given = values.peek().is_some();
        if values.all(|value| value.as_bytes().eq_ignore_ascii_case(b"reject")) {
            return Ok(Self(is_given));
        }
        Err(ApiError::new(
            Code::InvalidRequest,
            "the header `Idempotency-Mismatch` must be `reject` or absent",
        ))
    }
}

/// The `{operationId}` of the path.
pub struct PathOperationId(pub OperationId);

impl<S: Send + Sync> FromRequestParts<S> for PathOperationId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| text.parse().ok());
        id.map(Self).inspect(|Self(id)| layers::note_operation(id)).ok_or_else(|| {
            ApiError::new(Code::InvalidOperationId, "an operation id is 64 lowercase hexadecimal characters")
        })
    }
}

/// The `{keyRef}` of the path.
pub struct PathKeyRef(pub KeyRef);

impl<S: Send + Sync> FromRequestParts<S> for PathKeyRef {
    type Rejection = ApiError;

    /// No key has a name that is not UTF-8, has U+0000, or is longer than 1024 bytes: the answer is `custody_key_not_found`.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let is_possible = |text: &String| text.len() <= TEXT_BYTES_MAX && !text.contains('\0');
        let name = text.ok().map(|Path(text)| text).filter(is_possible).map(|text| Self(KeyRef(text)));
        name.ok_or_else(|| {
            let message = "a key's name is at most 1024 bytes of UTF-8, without the character U+0000";
            ApiError::new(Code::CustodyKeyNotFound, message)
        })
    }
}
