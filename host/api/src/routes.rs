//! The routes. Each handler's `#[utoipa::path]` is the only statement about its route: method, path, scope (`security`),
//! shapes, and the errors that only it has (`x-errors`). The router enforces that scope, and `/v1/openapi.json` shows it.

pub mod caller;
pub mod custody_keys;
pub mod events;
pub mod evidence;
pub mod health;
pub mod log;
pub mod operations;
pub mod policy;
pub mod webhooks;

use crate::openapi::Document;
use crate::state::App;
use axum::Extension;
use gateway_auth::Scope;
use serde_json::json;
use std::sync::LazyLock;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

/// The credentials that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No credentials: probes and the OpenAPI document.
    Open,
    /// An authenticated caller that holds this scope.
    Scope(Scope),
}

/// Every route: method, path, access.
pub static ROUTES: LazyLock<Vec<(&str, &str, Access)>> = LazyLock::new(|| {
    let items = DOCUMENT.paths.paths.iter();
    let routes = items.flat_map(|(path, item)| {
        let access = |operation| scope(operation).map_or(Access::Open, Access::Scope);
        operations(item).map(move |(method, operation)| (method, path.as_str(), access(operation)))
    });
    routes.collect()
});

/// The OpenAPI document that utoipa derives from the handlers.
pub(crate) static DOCUMENT: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(|| {
    OpenApiRouter::with_openapi(Document::openapi()).merge(api()).merge(probes()).into_openapi()
});

/// Every route except those of [`probes`].
pub(crate) fn api() -> OpenApiRouter<App> {
    router([
        routes!(operations::payments::sign),
        routes!(operations::payments::list),
        routes!(operations::payments::show),
        routes!(operations::payments::approve),
        routes!(operations::payments::reject),
        routes!(operations::payments::cancel),
        routes!(operations::payments::execute),
        routes!(operations::payments::publish),
        routes!(operations::payments::node_recovery),
        routes!(evidence::operation_evidence),
        routes!(evidence::operation_audit_replay),
        routes!(custody_keys::create),
        routes!(custody_keys::list),
        routes!(custody_keys::show),
        routes!(custody_keys::derive),
        routes!(custody_keys::operations),
        routes!(custody_keys::sign),
        routes!(custody_keys::refresh),
        routes!(custody_keys::reshare),
        routes!(custody_keys::rotate),
        routes!(custody_keys::recover),
        routes!(custody_keys::recovery_contributions),
        routes!(operations::custody::list),
        routes!(operations::custody::show),
        routes!(operations::custody::approve),
        routes!(operations::custody::reject),
        routes!(operations::custody::cancel),
        routes!(operations::custody::execute),
        routes!(operations::custody::publish),
        routes!(operations::custody::node_recovery),
        routes!(operations::custody::external_export),
        routes!(operations::custody::abort),
        routes!(evidence::custody_evidence),
        routes!(evidence::custody_audit_replay),
        routes!(caller::caller),
        routes!(events::events),
        routes!(webhooks::list),
        routes!(webhooks::resend),
        routes!(webhooks::dismiss),
        routes!(log::checkpoint),
        routes!(log::key),
        routes!(log::consistency),
        routes!(log::inclusion),
        routes!(log::tlog_proof),
        routes!(policy::preview),
        routes!(policy::bundles),
        routes!(health::healthz),
        routes!(health::openapi_json),
    ])
}

/// The probes that the setting `admin_bind` moves to an address of their own.
pub(crate) fn probes() -> OpenApiRouter<App> {
    router([routes!(health::readyz), routes!(health::metrics)])
}

/// The routes of that address: these probes, and the liveness probe, which the API has too.
pub(crate) fn admin() -> OpenApiRouter<App> {
    probes().merge(router([routes!(health::healthz)]))
}

fn router<const N: usize>(routes: [UtoipaMethodRouter<App>; N]) -> OpenApiRouter<App> {
    routes.into_iter().map(with_scope).fold(OpenApiRouter::new(), OpenApiRouter::routes)
}

/// Passes the scope in the route's `security` to [`crate::extract::Caller`], which rejects callers that do not hold it.
fn with_scope((schemas, paths, methods): UtoipaMethodRouter<App>) -> UtoipaMethodRouter<App> {
    let scope = paths.paths.values().flat_map(operations).find_map(|(_, operation)| scope(operation));
    let methods = match scope {
        Some(scope) => methods.route_layer(Extension(scope)),
        None => methods,
    };
    (schemas, paths, methods)
}

/// The operations of a path, with their methods.
fn operations(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    [("GET", &item.get), ("POST", &item.post)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn scope(operation: &Operation) -> Option<Scope> {
    let security = json!(operation.security);
    serde_json::from_value(security.pointer("/0/bearer/0")?.clone()).ok()
}
