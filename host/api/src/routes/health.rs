//! Probes and the interface description.

use crate::error::{ApiError, ErrorBody};
use crate::openapi;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The gateway is ok: no dependency is asked.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Object)))]
pub async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// Whether the gateway can do its work.
///
/// # Errors
/// `store_unavailable` when the store does not answer.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, body = Object),
    (status = 503, description = "`store_unavailable`", body = ErrorBody),
))]
pub async fn readyz(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    app.engine().ping_store().await?;
    Ok(Json(json!({ "status": "ready", "checks": { "store": "ok" } })))
}

/// This interface as OpenAPI 3.1.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "health", responses((status = 200, body = Object)))]
pub async fn openapi_json() -> impl IntoResponse {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi::document().to_string());
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}
