//! `Caller<Scope>`: authenticated and holding the scope that the handler's signature names.

use crate::error::{ApiError, Code};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use gateway_auth::{Principal, Scope, bypass, headers as identity};
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

impl<N: Needs, S: Send + Sync> FromRequestParts<S> for Caller<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        check_readable(&parts.headers)?;
        let principal = bypass(|name| parts.headers.get(name).and_then(|value| value.to_str().ok()))?;
        if !principal.holds(N::SCOPE) {
            return Err(ApiError::insufficient_scope(N::SCOPE));
        }
        Ok(Self { principal, needs: PhantomData })
    }
}

/// An identity header that cannot be read, or that stands there twice, is no identity: never taken as absent.
fn check_readable(headers: &HeaderMap) -> Result<(), ApiError> {
    for name in identity::ALL {
        let mut values = headers.get_all(name).iter();
        let is_readable = values.next().is_none_or(|value| value.to_str().is_ok()) && values.next().is_none();
        if !is_readable {
            return Err(ApiError::new(
                Code::InvalidRequest,
                format!("header `{name}` must be given once, in ASCII"),
            ));
        }
    }
    Ok(())
}
