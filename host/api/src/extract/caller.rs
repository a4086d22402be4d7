//! [`Caller`]: authenticates the caller and checks the scope that the route requires.

use crate::counters;
use crate::error::ApiError;
use crate::state::App;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use gateway_auth::{Peer, Principal, Scope, Unauthenticated};
use gateway_domain::binding::TENANT_DEFAULT;
use gateway_domain::ids::Tenant;
use gateway_engine::{EngineError, Visibility};

/// An authenticated caller that holds the scope of the route.
pub struct Caller {
    /// The caller's identity.
    pub principal: Principal,
}

impl Caller {
    /// What the caller can see.
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
