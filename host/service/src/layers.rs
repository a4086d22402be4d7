//! The outermost layer around every request: a request id, a log line, a count, and no caching.

use crate::telemetry::Descriptions;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use metrics::counter;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tracing::Instrument;

/// The counters of this module with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions = &[(REQUESTS, "Requests answered, by method, route and status")];

const REQUESTS: &str = "operation_gateway_requests_total";

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
    count_request(&method, route, response.status());
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

/// No label value comes from a request, so that callers cannot create new time series.
fn count_request(method: &Method, route: &str, status: StatusCode) {
    let method = match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        _ => "other",
    };
    let (route, status) = (route.to_owned(), status.as_str().to_owned());
    counter!(REQUESTS, "method" => method, "route" => route, "status" => status).increment(1);
}
