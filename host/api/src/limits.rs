//! What one request may take: the length of its target, and the time for all of it. Bodies are measured where they are
//! read (`extract::body`), connections by the server.

use crate::error::{ApiError, Code};
use crate::state::App;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

/// Longest path and query together: the longest name there is, percent-encoded, is 3 KiB.
pub const TARGET_BYTES_MAX: usize = 8192;

/// Answers for a request that is too long or takes too long. What an engine has begun by then goes on without it.
pub async fn limit(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.uri().path_and_query().map_or(0, |target| target.as_str().len()) > TARGET_BYTES_MAX {
        let message = format!("path and query must be at most {TARGET_BYTES_MAX} bytes");
        return ApiError::new(Code::InvalidRequest, message).into_response();
    }
    let within = app.options().request_within;
    timeout(within, next.run(request)).await.unwrap_or_else(|_| {
        let message = "the gateway did not finish in time; nothing was lost, send the request again";
        ApiError::new(Code::RuntimeUnavailable, message).with(header::RETRY_AFTER, "1").into_response()
    })
}
