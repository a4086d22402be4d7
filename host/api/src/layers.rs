//! The layers around every request: a request id, a log line, no caching, limits on the target's length and on the time,
//! and an error body when a handler panics. Bodies are limited in `extract::body`, connections in the server.

use crate::counters;
use crate::error::{ApiError, Code};
use crate::state::App;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::time::timeout;
use tracing::Instrument;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest request id that is accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Gives the request an id, logs and counts it, and forbids caching of the answer.
pub async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = request_id(request.headers().get(&REQUEST_ID));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let id = request_id.to_str().unwrap_or_default().to_owned();
    let span = tracing::info_span!("request", request_id = id.as_str());
    let mut response = CURRENT_REQUEST_ID.scope(id, next.run(request).instrument(span.clone())).await;
    let status = response.status().as_u16();
    let route = route.as_deref().unwrap_or("(unmatched)");
    counters::count_request(&method, route, response.status());
    let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    span.in_scope(|| tracing::info!(%method, route, status, elapsed_us, "answered"));
    response.headers_mut().insert(REQUEST_ID.clone(), request_id);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

tokio::task_local! {
    static CURRENT_REQUEST_ID: String;
}

/// The id of the request that this task answers. `None` outside of [`observe`].
#[must_use]
pub fn current_request_id() -> Option<String> {
    CURRENT_REQUEST_ID.try_with(Clone::clone).ok()
}

/// The client's id if it is valid, else a new one.
fn request_id(given: Option<&HeaderValue>) -> HeaderValue {
    let is_plain = |text: &str| {
        !text.is_empty()
            && text.len() <= REQUEST_ID_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
    };
    match given {
        Some(value) if value.to_str().is_ok_and(is_plain) => value.clone(),
        Some(_) | None => fresh_request_id(),
    }
}

fn fresh_request_id() -> HeaderValue {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Seeded from the operating system's randomness, so that two processes do not produce the same ids.
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    HeaderValue::from_str(&format!("{:016x}-{number:x}", *PROCESS))
        .unwrap_or_else(|_| HeaderValue::from_static("unnamed"))
}

/// Longest path and query together, bytes. A key's name of 1 KiB has 3 KiB when percent-encoded.
pub const TARGET_BYTES_MAX: usize = 8192;

/// Rejects a target that is too long, and answers in place of a handler that takes too long. What the engine has begun
/// continues.
pub async fn limit(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.uri().path_and_query().map_or(0, |target| target.as_str().len()) > TARGET_BYTES_MAX {
        let message = format!("path and query must be at most {TARGET_BYTES_MAX} bytes");
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
