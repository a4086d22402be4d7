//! HTTP: routes, wire shapes, errors and views.
//!
//! Deliberately absent: rules about operations, and adapters; a handler parses, calls one use case of
//! `gateway_engine` and shows the answer. Start at [`router`], then [`routes`], then [`wire`].

mod access;
pub mod counters;
pub mod error;
pub mod extract;
pub mod layers;
pub mod limits;
pub mod openapi;
pub mod origin;
pub mod routes;
pub mod state;
pub mod strict;
pub mod wire;

pub use access::{Access, ROUTES};

use axum::Router;
use axum::routing::{get, post};
use routes::{custody_keys, custody_operations, evidence, health, log, operations, policy};
use state::App;
use tower_http::catch_panic::CatchPanicLayer;

/// The whole API; without the probes that are served apart.
pub fn router(app: App) -> Router {
    let router = Router::new()
        .route("/v1/operations/sign", post(operations::sign))
        .route("/v1/operations/{operationId}", get(operations::show))
        .route("/v1/operations/{operationId}/approve", post(operations::approve))
        .route("/v1/operations/{operationId}/execute", post(operations::execute))
        .route("/v1/operations/{operationId}/publish", post(operations::publish))
        .route("/v1/operations/{operationId}/node-recovery", post(operations::node_recovery))
        .route("/v1/operations/{operationId}/evidence", get(evidence::operation_evidence))
        .route("/v1/operations/{operationId}/audit-replay", get(evidence::operation_audit_replay))
        .route("/v1/custody/keys", post(custody_keys::create))
        .route("/v1/custody/keys/{keyRef}", get(custody_keys::show))
        .route("/v1/custody/keys/{keyRef}/operations", get(custody_keys::operations))
        .route("/v1/custody/keys/{keyRef}/sign", post(custody_keys::sign))
        .route("/v1/custody/keys/{keyRef}/refresh", post(custody_keys::refresh))
        .route("/v1/custody/keys/{keyRef}/reshare", post(custody_keys::reshare))
        .route("/v1/custody/keys/{keyRef}/rotate", post(custody_keys::rotate))
        .route("/v1/custody/keys/{keyRef}/recover", post(custody_keys::recover))
        .route("/v1/custody/operations/{operationId}", get(custody_operations::show))
        .route("/v1/custody/operations/{operationId}/approve", post(custody_operations::approve))
        .route("/v1/custody/operations/{operationId}/execute", post(custody_operations::execute))
        .route("/v1/custody/operations/{operationId}/publish", post(custody_operations::publish))
        .route("/v1/custody/operations/{operationId}/node-recovery", post(custody_operations::node_recovery))
        .route(
            "/v1/custody/operations/{operationId}/external-export",
            post(custody_operations::external_export),
        )
        .route("/v1/custody/operations/{operationId}/evidence", get(evidence::custody_evidence))
        .route("/v1/custody/operations/{operationId}/audit-replay", get(evidence::custody_audit_replay))
        .route("/v1/log/checkpoint", get(log::checkpoint))
        .route("/v1/log/key", get(log::key))
        .route("/v1/log/consistency", get(log::consistency))
        .route("/v1/log/inclusion", get(log::inclusion))
        .route("/v1/log/tlog-proof", get(log::tlog_proof))
        .route("/v1/policy/preview", post(policy::preview))
        .route("/v1/policy/bundles", get(policy::bundles))
        .route("/healthz", get(health::healthz))
        .route("/v1/openapi.json", get(health::openapi_json));
    layered(if app.options().probes_apart { router } else { probes(router) }, app)
}

/// What is served on an address of its own, where probes are.
pub fn admin_router(app: App) -> Router {
    layered(probes(Router::new().route("/healthz", get(health::healthz))), app)
}

fn probes(router: Router<App>) -> Router<App> {
    router.route("/readyz", get(health::readyz)).route("/metrics", get(health::metrics))
}

fn layered(router: Router<App>, app: App) -> Router {
    router
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(app.clone(), origin::check))
        .layer(axum::middleware::from_fn_with_state(app.clone(), limits::limit))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(axum::middleware::from_fn(layers::observe))
        .with_state(app)
}
