//! The routes. Each handler's `#[utoipa::path]` is the only statement about its route: method, path, scope (`security`),
//! shapes, and the errors that only it has (`x-errors`). The router enforces that scope, and `/v1/openapi.json` shows it.

pub mod caller;
pub mod custody_keys;
pub mod decisions;
pub mod events;
pub mod evidence;
pub mod health;
pub mod log;
pub mod operations;
pub mod policy;
pub mod webhooks;

use crate::state::App;
use axum::Extension;
use gateway_auth::Scope;
use serde_json::json;
use tower_http::compression::predicate::{DefaultPredicate, SizeAbove};
use tower_http::compression::{CompressionLayer, Predicate as _};
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

/// Every route except those of [`probes`].
pub(crate) fn api() -> OpenApiRouter<App> {
    let of_operations = router(operations::payments::routes()).merge(router(operations::custody::routes()));
    of_operations.merge(router([
        routes!(operations::payments::sign),
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
        routes!(operations::custody::external_export),
        routes!(operations::custody::abort),
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
        routes!(policy::shadow),
        routes!(decisions::list),
        routes!(decisions::show),
        routes!(health::healthz),
        routes!(health::openapi_json),
    ]))
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
    routes.into_iter().map(with_scope).map(compressed).fold(OpenApiRouter::new(), OpenApiRouter::routes)
}

/// Compresses the answers of a path that is only read, for clients that ask for it: ten operations are 39 kB, or 3 kB compressed.
/// The compressor's state, 2.4 kB, would be allocated for the short answers of the other paths too.
fn compressed((schemas, paths, methods): UtoipaMethodRouter<App>) -> UtoipaMethodRouter<App> {
    let is_read = paths.paths.values().all(|item| item.post.is_none());
    let whole_and_not_small = DefaultPredicate::new().and(SizeAbove::new(1024));
    let compression = CompressionLayer::new().compress_when(whole_and_not_small);
    (schemas, paths, if is_read { methods.layer(compression) } else { methods })
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

/// The credentials that the route of this operation requires.
pub(crate) fn access(operation: &Operation) -> Access {
    scope(operation).map_or(Access::Open, Access::Scope)
}

/// The operations of a path, with their methods.
pub(crate) fn operations(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    [("GET", &item.get), ("POST", &item.post)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn scope(operation: &Operation) -> Option<Scope> {
    let security = json!(operation.security);
    serde_json::from_value(security.pointer("/0/bearer/0")?.clone()).ok()
}
