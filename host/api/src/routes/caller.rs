//! `/v1/caller`: who the gateway takes the caller for. Pages ask it, to show what awaits their reader.

use crate::extract::Caller;
use crate::state::App;
use crate::wire::caller::CallerView;
use axum::Json;
use axum::extract::State;
use gateway_auth::Principal;
use gateway_auth::Scope::*;
use gateway_domain::binding::TENANT_DEFAULT;
use gateway_domain::ids::Tenant;

/// Shows the caller's identity, roles and scopes, and the keys with which it can sign approvals.
#[utoipa::path(
    get, path = "/v1/caller", operation_id = "caller", tag = "health",
    security(("bearer" = [Authenticated])), responses((status = 200, body = CallerView)),
)]
pub async fn caller(caller: Caller, State(app): State<App>) -> Json<CallerView> {
    let tenant = match &caller.principal {
        Principal::Identified(identity) => identity.tenant.clone(),
        Principal::Unrestricted => None,
    };
    let tenant = tenant.unwrap_or_else(|| Tenant(TENANT_DEFAULT.to_owned()));
    let (rule, now) = (app.engine().signing_rule(), app.engine().now());
    Json(CallerView::new(&caller.principal, &tenant, rule, now))
}
