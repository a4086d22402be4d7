//! From a request to values that need no further checking. A handler's signature shows which values it takes.

mod body;
pub mod query;

pub use body::Body;

use crate::counters;
use crate::error::{ApiError, Code};
use crate::state::App;
use crate::strict::TEXT_BYTES_MAX;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use gateway_auth::{Peer, Principal, Scope, Unauthenticated};
use gateway_domain::binding::TENANT_DEFAULT;
use gateway_domain::ids::{KeyRef, OperationId, Tenant};
use gateway_engine::{EngineError, Visibility};

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
        // A route without a scope must not use this extractor: its callers are rejected rather than trusted.
        let no_scope = || EngineError::Internal("this route has a caller and no scope".to_owned());
        let scope = *parts.extensions.get::<Scope>().ok_or_else(no_scope)?;
        let peer = parts.extensions.get::<Peer>();
        let principal = app.authenticator().authenticate(&parts.headers, peer).await;
        let principal = principal.inspect_err(rejected)?;
        if !principal.holds(scope) {
            counters::refused("insufficient_scope");
            return Err(ApiError::insufficient_scope(scope));
        }
        Ok(Self { principal })
    }
}

/// Logs the reason and never the credentials.
fn rejected(why: &Unauthenticated) {
    counters::refused(why.reason());
    tracing::info!(reason = why.reason(), "caller refused");
}

/// The `{operationId}` of the path.
pub struct PathOperationId(pub OperationId);

impl<S: Send + Sync> FromRequestParts<S> for PathOperationId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| text.parse().ok());
        id.map(Self).ok_or_else(|| {
            ApiError::new(Code::InvalidOperationId, "an operation id is 64 lowercase hexadecimal characters")
        })
    }
}

/// The `{keyRef}` of the path.
pub struct PathKeyRef(pub KeyRef);

impl<S: Send + Sync> FromRequestParts<S> for PathKeyRef {
    type Rejection = ApiError;

    /// Text that is not UTF-8, or longer than every key's name, is the name of no key.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let name =
            text.ok().filter(|Path(text)| text.len() <= TEXT_BYTES_MAX).map(|Path(text)| Self(KeyRef(text)));
        name.ok_or_else(|| {
            ApiError::new(Code::CustodyKeyNotFound, "a key's name is at most 1024 bytes of UTF-8")
        })
    }
}
