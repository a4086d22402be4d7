//! Layers around every request: limits on the target's length and on the time, and an error body when a handler panics or no
//! route matches. Bodies are limited in `extract::body`, connections in the server.

use crate::error::{ApiError, Code};
use crate::state::App;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gateway_service::layers::check_head;
use tokio::time::timeout;

/// Longest path and query together, bytes. A key's name of 1 KiB has 3 KiB when percent-encoded.
pub const TARGET_BYTES_MAX: usize = 8192;

/// Rejects a target that is too long, or a request without one `Host`, and answers in place of a handler that takes too long. What the engine
/// has begun continues.
pub async fn limit(State(app): State<App>, request: Request, next: Next) -> Response {
    if let Err(message) = check_head(&request, TARGET_BYTES_MAX) {
        return ApiError::new(Code::InvalidRequest, message).into_response();
    }
    let within = app.options().request_within;
    timeout(within, next.run(request)).await.unwrap_or_else(|_| {
        let message = "the gateway did not finish in time; nothing was lost, send the request again";
        ApiError::new(Code::RuntimeUnavailable, message).with_header(header::RETRY_AFTER, "1").into_response()
    })
}

/// The answer to a request whose handler panicked. The panic hook logs the panic.
pub fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    ApiError::new(Code::InternalError, "the gateway failed; nothing was lost, the request may be sent again")
        .into_response()
}

/// The answer for an unknown path.
pub async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "no such path; GET /v1/openapi.json lists them")
}

/// The answer when the path exists but not with this method. axum adds the `Allow` header.
pub async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "this path does not support this method; see the `Allow` header")
}
