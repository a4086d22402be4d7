//! HTTP: routes, wire shapes, errors and views.
//!
//! Deliberately absent: rules about operations, and adapters; a handler parses, calls one use case of
//! `gateway_engine` and shows the answer. Start at [`router`], then [`routes`], then [`wire`].

pub mod error;
pub mod extract;
pub mod layers;
pub mod openapi;
pub mod routes;
pub mod state;
pub mod strict;
pub mod wire;

use axum::Router;
use axum::routing::{get, post};
use routes::{audit, health, operations, policy};
use state::App;
use tower_http::catch_panic::CatchPanicLayer;

/// Every route: method, path. A test compares it with the router and with the OpenAPI document.
pub const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/operations/sign"),
    ("GET", "/v1/operations/{operationId}"),
    ("POST", "/v1/operations/{operationId}/approve"),
    ("POST", "/v1/operations/{operationId}/execute"),
    ("POST", "/v1/operations/{operationId}/publish"),
    ("POST", "/v1/operations/{operationId}/node-recovery"),
    ("GET", "/v1/operations/{operationId}/audit-replay"),
    ("POST", "/v1/policy/preview"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/v1/openapi.json"),
];

/// The whole API.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/operations/sign", post(operations::sign))
        .route("/v1/operations/{operationId}", get(operations::show))
        .route("/v1/operations/{operationId}/approve", post(operations::approve))
        .route("/v1/operations/{operationId}/execute", post(operations::execute))
        .route("/v1/operations/{operationId}/publish", post(operations::publish))
        .route("/v1/operations/{operationId}/node-recovery", post(operations::node_recovery))
        .route("/v1/operations/{operationId}/audit-replay", get(audit::operation_audit_replay))
        .route("/v1/policy/preview", post(policy::preview))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/v1/openapi.json", get(health::openapi_json))
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::method_not_allowed)
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(axum::middleware::from_fn(layers::observe))
        .with_state(app)
}
