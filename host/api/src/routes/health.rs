//! Probes, and the OpenAPI document.

use crate::state::App;
use crate::wire::readiness::{HealthView, ReadinessView};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};

/// The text of the OpenAPI document, for a gateway with or without the bypass. It describes these handlers, so they are given it.
pub type DocumentText = fn(bool) -> &'static str;

/// Liveness: answers while the process runs, and checks no dependency.
#[utoipa::path(
    get, path = "/healthz", tag = "health", responses((status = 200, body = HealthView)),
)]
pub async fn healthz() -> Json<HealthView> {
    Json(HealthView { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Readiness: the result of each check. Expensive checks run at most once a second.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses(
        (status = 200, body = ReadinessView),
        (status = 503, description = "a check failed", body = ReadinessView),
    ),
)]
pub async fn readyz(State(app): State<App>) -> (StatusCode, Json<ReadinessView>) {
    let readiness = app.readiness().await;
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "health", responses((status = 200, body = String)),
)]
pub async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics().await)
}

/// This interface as OpenAPI 3.1.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "health", responses((status = 200, body = Object)),
)]
pub async fn openapi_json(
    State(app): State<App>,
    Extension(document): Extension<DocumentText>,
) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document(app.authenticator().is_bypass()))
}
