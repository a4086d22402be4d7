//! `Caller<Scope>`: authenticated and holding the scope that the handler's signature names.

use crate::counters;
use crate::error::ApiError;
use crate::state::App;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use gateway_auth::{Peer, Principal, Scope, Unauthenticated};
use gateway_domain::binding::TENANT_DEFAULT;
use gateway_domain::ids::Tenant;
use gateway_engine::Visibility;
use std::marker::PhantomData;

/// A scope as a type.
pub trait Needs {
    /// The scope.
    const SCOPE: Scope;
}

macro_rules! needs {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Needs for $name {
            const SCOPE: Scope = Scope::$name;
        }
    )*};
}

needs! {
    /// Any scope of the product family.
    OperationsAny;
    /// Submit.
    OperationsSign;
    /// Read.
    OperationsRead;
    /// Approve.
    OperationsApprove;
    /// Execute.
    OperationsExecute;
    /// Publish.
    OperationsPublish;
    /// Recover.
    OperationsRecover;
    /// Read keys, custody operations and evidence.
    CustodyRead;
    /// Submit a custody signature.
    CustodySign;
    /// Submit a key's creation or a change of it.
    CustodyManage;
    /// Approve in custody.
    CustodyApprove;
    /// Execute in custody.
    CustodyExecute;
    /// Publish in custody.
    CustodyPublish;
    /// Recover in custody.
    CustodyRecover;
    /// Record an external export.
    CustodyExport;
    /// Read the audit exports.
    AuditRead;
    /// Read which policy bundles there are.
    PolicyRead;
}

/// A caller that holds the scope `N`.
pub struct Caller<N> {
    /// Who.
    pub principal: Principal,
    needs: PhantomData<N>,
}

impl<N> Caller<N> {
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

impl<N: Needs> FromRequestParts<App> for Caller<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let peer = parts.extensions.get::<Peer>();
        let principal = app.authenticator().authenticate(&parts.headers, peer).await;
        let principal = principal.inspect_err(refused)?;
        if !principal.holds(N::SCOPE) {
            counters::refused("insufficient_scope");
            return Err(ApiError::insufficient_scope(N::SCOPE));
        }
        Ok(Self { principal, needs: PhantomData })
    }
}

/// Who tries what is worth knowing; what he tried it with is not for the log.
fn refused(why: &Unauthenticated) {
    counters::refused(why.reason());
    tracing::info!(reason = why.reason(), "caller refused");
}
