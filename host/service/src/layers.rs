//! The outermost layer around every request: a request id, a line of the access log, metrics, a span, and no caching.

use crate::Descriptions;
use crate::traces;
use crate::transport::Peer;
use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, Method, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, histogram};
use opentelemetry::trace::TraceId;
use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span, field};

/// The counters of this module with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions =
    &[(REQUESTS, "Requests answered, by method, route and status; status 499 if the client did not wait")];

/// The histograms of this module.
pub(crate) const HISTOGRAMS: Descriptions =
    &[(DURATION, "Time from a request's headers to its answer, by route and class of status")];

const REQUESTS: &str = "operation_gateway_requests_total";
const DURATION: &str = "operation_gateway_request_duration_seconds";

/// The target of the access log.
const ACCESS: &str = "access";

/// The status of a request whose client did not wait for the answer, as proxies log it.
const CLIENT_CLOSED: u16 = 499;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest request id that is accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Checks the parts of a request that are before its body: the target's length, and that it names one host (RFC 9112, section 3.2), which
/// HTTP/1.0 need not. A request without a connection is one of a test.
///
/// # Errors
/// The message for the client.
pub fn check_head(request: &Request, target_bytes_max: usize) -> Result<(), String> {
    if request.uri().path_and_query().map_or(0, |target| target.as_str().len()) > target_bytes_max {
        return Err(format!("path and query must be at most {target_bytes_max} bytes"));
    }
    let n_hosts = request.headers().get_all(header::HOST).iter().count();
    let must_have_one = request.version() == Version::HTTP_11 && request.extensions().get::<Peer>().is_some();
    if n_hosts > 1 || (must_have_one && n_hosts == 0) {
        return Err("the header `Host` must be given, and once".to_owned());
    }
    Ok(())
}

/// Gives the request an id and a span, logs and counts it, and forbids caching of the answer.
pub async fn observe(request: Request, next: Next) -> Response {
    let request_id = request_id(request.headers().get(&REQUEST_ID));
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "(unmatched)".to_owned());
    let log_span = tracing::info_span!("request", request_id = request_id.to_str().unwrap_or_default());
    let span = tracing::info_span!(
        target: "trace", "request",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = field::Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = field::Empty,
        request_id = request_id.to_str().unwrap_or_default(),
        operation_id = field::Empty,
    );
    let caller = traces::caller_span(request.headers());
    let trace_id = caller.as_ref().map(opentelemetry::trace::SpanContext::trace_id);
    if let Some(caller) = caller {
        traces::set_caller(&span, caller);
    }
    let trace_id = traces::trace_id(&span).or(trace_id);
    let spans = [log_span.clone(), span.clone()];
    let noted = Arc::new(Noted::new(request_id.to_str().unwrap_or_default(), spans));
    let started = Instant::now();
    let mut entry =
        Entry { noted: Arc::clone(&noted), method, route, trace_id, span, started, answered: None };
    let answering = next.run(request).instrument(entry.span.clone()).instrument(log_span);
    let mut response = CURRENT.scope(noted, answering).await;
    entry.answered = Some((response.status().as_u16(), response.body().size_hint().exact()));
    response.headers_mut().insert(REQUEST_ID.clone(), request_id);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A request, which is logged and counted when it ends, also when its client goes away.
struct Entry {
    noted: Arc<Noted>,
    method: &'static str,
    route: String,
    trace_id: Option<TraceId>,
    span: Span,
    started: Instant,
    /// Status and length of the answer.
    answered: Option<(u16, Option<u64>)>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Self { noted, method, route, trace_id, span, started, answered } = self;
        let elapsed = started.elapsed();
        let (status, bytes) = answered.unwrap_or((CLIENT_CLOSED, None));
        let caller = noted.caller.get();
        let operation_id = noted.operation_id.get();
        tracing::info!(
            target: ACCESS,
            request_id = noted.request_id,
            %method,
            route,
            status,
            duration_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            bytes,
            operation_id,
            client_id = caller.map(|(client_id, _)| client_id.as_str()),
            tenant = caller.map(|(_, tenant)| tenant.as_str()),
            trace_id = trace_id.map(field::display),
            "answered"
        );
        span.record("http.response.status_code", status);
        if let Some(operation_id) = operation_id {
            span.record("operation_id", operation_id);
        }
        if status >= 500 {
            span.record("otel.status_code", "ERROR");
        }
        // No label value comes from a request, so that callers cannot create new time series.
        let (route, class) = (std::mem::take(route), class(status));
        histogram!(DURATION, "route" => route.clone(), "status" => class).record(elapsed);
        counter!(REQUESTS, "method" => *method, "route" => route, "status" => status.to_string())
            .increment(1);
    }
}

/// What is known of the request that a task answers.
#[derive(Debug)]
struct Noted {
    request_id: String,
    /// Client and tenant, once authenticated.
    caller: OnceLock<(String, String)>,
    operation_id: OnceLock<String>,
    /// The span of its log, and the one of its trace.
    spans: [Span; 2],
}

impl Noted {
    fn new(request_id: &str, spans: [Span; 2]) -> Self {
        let (caller, operation_id) = (OnceLock::new(), OnceLock::new());
        Self { request_id: request_id.to_owned(), caller, operation_id, spans }
    }
}

tokio::task_local! {
    static CURRENT: Arc<Noted>;
}

/// The id of the request that this task answers. `None` outside of [`observe`].
#[must_use]
pub fn current_request_id() -> Option<String> {
    CURRENT.try_with(|noted| noted.request_id.clone()).ok()
}

/// Spawns a part of the request that this task answers, so that it ends also if the client does not wait for it.
pub(crate) fn spawn<T: Send + 'static>(part: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    match CURRENT.try_with(Arc::clone) {
        Ok(noted) => {
            let [log_span, span] = noted.spans.clone();
            tokio::spawn(CURRENT.scope(noted, part.instrument(span).instrument(log_span)))
        }
        Err(_outside_of_a_request) => tokio::spawn(part),
    }
}

/// Notes the authenticated caller of the request that this task answers, for the access log.
pub fn note_caller(client_id: &str, tenant: &str) {
    let _outside_of_a_request =
        CURRENT.try_with(|noted| noted.caller.set((client_id.to_owned(), tenant.to_owned())).is_ok());
}

/// Notes the operation that the request of this task is about, for the access log. The first one counts.
pub fn note_operation(id: impl Display) {
    let _outside_of_a_request = CURRENT.try_with(|noted| {
        noted.operation_id.get_or_init(|| id.to_string());
    });
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

/// Methods that no route has are one name, since clients invent them.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        _ => "other",
    }
}

const fn class(status: u16) -> &'static str {
    match status {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}
