//! The quota of each caller: a limit of simultaneous requests, a rate over time, and room for large bodies. A caller at its limit does not
//! slow another one.

use crate::Descriptions;
use crate::answer::ErrorAnswer;
use crate::layers;
use crate::transport::Caller;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics::counter;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The counters of this module with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions =
    &[(REFUSED, "Requests refused because of their caller's quota, by caller and reason")];

const REFUSED: &str = "operation_gateway_caller_requests_refused_total";

/// The label of requests without a named caller, which only a router in a test gets.
const UNNAMED: &str = "(unnamed)";

/// Bodies larger than this one need room, bytes.
const SMALL_BODY_BYTES: u64 = 64 * 1024;

/// A body takes at most so much room, bytes: the largest that a service reads, or one whose length is not declared.
const LARGE_BODY_BYTES: u64 = 32 * 1024 * 1024;

/// The room of a caller for bodies larger than [`SMALL_BODY_BYTES`], in their number. What a caller can make a service hold is then limited,
/// however many requests it sends at once.
const ROOM: u64 = 2 * LARGE_BODY_BYTES / SMALL_BODY_BYTES;

/// The quota of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Requests that are answered at the same time.
    pub requests_max: usize,
    /// Requests a second that the caller may make on average, at least 1.
    pub per_second: u32,
    /// Requests that it may make at once after a pause, at least 1.
    pub burst: u32,
}

/// The quotas of all callers of a process.
#[derive(Debug)]
pub struct Quotas {
    by_caller: BTreeMap<Arc<str>, Quota>,
    /// Shared by the requests of all other callers.
    others: Quota,
}

#[derive(Debug)]
struct Quota {
    permits: Arc<Semaphore>,
    bucket: Mutex<Bucket>,
    room: Arc<Semaphore>,
}

/// Tokens, as the instant at which there are as many as the burst again: GCRA, the virtual scheduling form (ITU-T I.371, annex A).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
    /// Time in which one token is added.
    increment: Duration,
    /// Time in which all are.
    capacity: Duration,
}

impl Bucket {
    fn new(limits: QuotaLimits, now: Instant) -> Self {
        let increment = Duration::from_secs(1) / limits.per_second.max(1);
        Self { full_at: now, increment, capacity: increment * limits.burst.max(1) }
    }

    /// Takes a token. Returns false if the bucket is empty.
    fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.increment;
        if full_at > now + self.capacity {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

impl Quota {
    fn new(limits: QuotaLimits, now: Instant) -> Self {
        let bucket = Mutex::new(Bucket::new(limits, now));
        let permits = Arc::new(Semaphore::new(limits.requests_max));
        Self { permits, bucket, room: Arc::new(Semaphore::new(ROOM as usize)) }
    }

    /// Waits for the room of a body of this length, before it is read.
    async fn room(&self, length: Option<u64>) -> Option<OwnedSemaphorePermit> {
        let length = match length {
            Some(length) if length <= SMALL_BODY_BYTES => return None,
            length => length.unwrap_or(LARGE_BODY_BYTES).min(LARGE_BODY_BYTES),
        };
        let n_parts = u32::try_from(length.div_ceil(SMALL_BODY_BYTES)).ok()?;
        // The semaphore is never closed, and a `u32` holds any part of it.
        Arc::clone(&self.room).acquire_many_owned(n_parts).await.ok()
    }
}

impl Quotas {
    /// A quota for each of these callers.
    #[must_use]
    pub fn new(callers: impl IntoIterator<Item = Arc<str>>, limits: QuotaLimits) -> Self {
        let now = Instant::now();
        let by_caller = callers.into_iter().map(|caller| (caller, Quota::new(limits, now))).collect();
        Self { by_caller, others: Quota::new(limits, now) }
    }
}

/// Answers 429 if the caller is at its limit. A layer for the routes that callers use.
///
/// A request counts, and has its room, until its work ends, also if its client went away or its time is up: the work that it began on
/// other threads does not stop with it.
pub async fn limit(State(quotas): State<Arc<Quotas>>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().map(|caller| Arc::clone(&caller.0));
    let quota = caller.as_ref().and_then(|caller| quotas.by_caller.get(caller)).unwrap_or(&quotas.others);
    let Ok(permit) = Arc::clone(&quota.permits).try_acquire_owned() else {
        return refused(caller, "simultaneous", "the caller makes too many requests at the same time");
    };
    let is_taken = quota.bucket.lock().take(Instant::now());
    if !is_taken {
        return refused(caller, "rate", "the caller makes too many requests");
    }
    let room = quota.room(request.body().size_hint().exact()).await;
    let answering = async move {
        let _held = (permit, room);
        next.run(request).await
    };
    layers::spawn(answering).await.unwrap_or_else(|ended| match ended.try_into_panic() {
        // The layer that catches panics answers.
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_stopped) => ErrorAnswer::unavailable("the process stops").into_response(),
    })
}

/// The caller's name comes from the settings, so that callers cannot create new time series.
fn refused(caller: Option<Arc<str>>, reason: &'static str, message: &'static str) -> Response {
    let caller = caller.map_or_else(|| UNNAMED.to_owned(), |caller| caller.to_string());
    counter!(REFUSED, "caller" => caller, "reason" => reason).increment(1);
    // A token comes back within a second, and a request usually ends earlier.
    let answer = ErrorAnswer::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message);
    answer.with_header(header::RETRY_AFTER, "1").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{ErrorBody, read_json, with_layers};
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::{get, post};
    use axum::{Json, Router};
    use std::convert::Infallible;
    use std::io::{Read as _, Seek as _};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use tokio::sync::Notify;
    use tower::ServiceExt;

    const NAMES: [&str; 2] = ["one.localhost", "two.localhost"];

    /// Requests that wait until a test ends them.
    struct Waiting {
        started: Semaphore,
        end: Notify,
    }

    impl Waiting {
        fn new() -> Arc<Self> {
            Arc::new(Self { started: Semaphore::new(0), end: Notify::new() })
        }

        async fn started(&self, n_requests: u32) {
            self.started.acquire_many(n_requests).await.unwrap().forget();
        }
    }

    /// `/` answers at once, `/wait` when it is notified.
    fn router(limits: QuotaLimits, waiting: &Arc<Waiting>) -> Router {
        let waiting = Arc::clone(waiting);
        let wait = move || async move {
            waiting.started.add_permits(1);
            waiting.end.notified().await;
        };
        let quotas = Arc::new(Quotas::new(NAMES.map(Arc::from), limits));
        let routes = Router::new().route("/", get(|| async {})).route("/wait", get(wait));
        routes.layer(from_fn_with_state(quotas, limit))
    }

    fn request(caller: &str, path: &str) -> Request {
        let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(Caller(caller.into()));
        request
    }

    async fn status(router: &Router, caller: &str) -> u16 {
        router.clone().oneshot(request(caller, "/")).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn caller_at_its_limit_does_not_slow_another() {
        let waiting = Waiting::new();
        let mut limits = QuotaLimits { requests_max: 8, per_second: 1, burst: 3 };
        let slow = router(limits, &waiting);
        for expected in [200, 200, 200, 429] {
            assert_eq!(status(&slow, NAMES[0]).await, expected);
        }
        assert_eq!(status(&slow, NAMES[1]).await, 200);

        limits = QuotaLimits { requests_max: 2, per_second: 1000, burst: 1000 };
        let busy = router(limits, &waiting);
        let requests: Vec<_> =
            (0..2).map(|_| tokio::spawn(busy.clone().oneshot(request(NAMES[0], "/wait")))).collect();
        waiting.started(2).await;
        let refused = busy.clone().oneshot(request(NAMES[0], "/")).await.unwrap();
        assert_eq!(refused.status().as_u16(), 429);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert_eq!(status(&busy, NAMES[1]).await, 200);
        for _ in 0..2 {
            waiting.end.notify_one();
        }
        for answer in requests {
            assert_eq!(answer.await.unwrap().unwrap().status().as_u16(), 200);
        }
        assert_eq!(status(&busy, NAMES[0]).await, 200);
    }

    #[tokio::test]
    async fn request_counts_until_its_work_ends_also_if_its_client_went_away() {
        let waiting = Waiting::new();
        let busy = router(QuotaLimits { requests_max: 1, per_second: 1000, burst: 1000 }, &waiting);
        let client = tokio::spawn(busy.clone().oneshot(request(NAMES[0], "/wait")));
        waiting.started(1).await;
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(status(&busy, NAMES[0]).await, 429);
        waiting.end.notify_one();
        while status(&busy, NAMES[0]).await != 200 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn answer_within_a_quota_has_the_requests_id_and_a_panic_is_answered() {
        let limits = QuotaLimits { requests_max: 1, per_second: 1000, burst: 1000 };
        let quotas = Arc::new(Quotas::new(NAMES.map(Arc::from), limits));
        let mut log = tempfile::tempfile().unwrap();
        let written = std::sync::Mutex::new(log.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(written).finish();
        let _default = tracing::subscriber::set_default(subscriber);
        let refuses = || async {
            tracing::info!("it refuses");
            ErrorAnswer::new(StatusCode::CONFLICT, "refused", "no")
        };
        async fn panics() {
            panic!("a bug")
        }
        let routes = Router::new().route("/refuses", get(refuses)).route("/panics", get(panics));
        let router = with_layers(routes.layer(from_fn_with_state(quotas, limit)));
        for (path, expected) in [("/refuses", 409), ("/panics", 500), ("/panics", 500)] {
            let mut request = request(NAMES[0], path);
            request.headers_mut().insert("x-request-id", "an-id".parse().unwrap());
            let answer = router.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), expected);
            let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
            let body: ErrorBody = serde_json::from_slice(&body).unwrap();
            assert_eq!(body.request_id.as_deref(), Some("an-id"));
        }
        let mut written = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut written).unwrap();
        let line = written.lines().find(|line| line.contains("it refuses")).unwrap();
        assert!(line.contains("request_id=\"an-id\""), "{line}");
    }

    /// The declared length, and how many such requests of one caller are handled at the same time.
    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_their_callers_room_before_they_are_read() {
        let megabyte = 1024 * 1024;
        let large = format!("\"{}\"", "x".repeat(200_000));
        for (length, expected) in
            [(Some(megabyte), 64), (Some(22 * megabyte), 2), (None, 2), (Some(64 * 1024), 200)]
        {
            let n_handled = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&n_handled);
            let handler = move |request: Request| {
                counted.fetch_add(1, Ordering::Relaxed);
                async move { read_json::<String>(request, 100 * megabyte as usize).await.map(Json) }
            };
            let limits = QuotaLimits { requests_max: 200, per_second: 1000, burst: 1000 };
            let quotas = Arc::new(Quotas::new(NAMES.map(Arc::from), limits));
            let routes = Router::new().route("/", post(handler));
            let router = with_layers(routes.layer(from_fn_with_state(Arc::clone(&quotas), limit)));
            let send = |caller: &str, body: Body| {
                let mut request = Request::post("/").header("host", "node").body(body).unwrap();
                request.extensions_mut().insert(Caller(caller.into()));
                router.clone().oneshot(request)
            };
            let mut requests = tokio::task::JoinSet::new();
            for _ in 0..200 {
                requests.spawn(send(NAMES[0], Body::new(Sized { length })));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(n_handled.load(Ordering::Relaxed), expected, "{length:?}");
            // Another caller's is read at once.
            let started = tokio::time::Instant::now();
            let other = send(NAMES[1], Body::from(large.clone())).await;
            assert_eq!((other.unwrap().status(), started.elapsed()), (StatusCode::OK, Duration::ZERO));
            // Requests that find no room in time are refused, and those that did give it back.
            let statuses = requests.join_all().await.into_iter().map(|answer| answer.unwrap().status());
            let slow = [StatusCode::REQUEST_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE];
            assert!(statuses.into_iter().all(|status| slow.contains(&status)));
            tokio::time::sleep(Duration::from_secs(60)).await;
            let quota = &quotas.by_caller[NAMES[0]];
            assert_eq!(quota.room.available_permits() as u64, ROOM);
            assert_eq!(quota.permits.available_permits(), 200);
        }
    }

    /// A body that says its length and never comes.
    struct Sized {
        length: Option<u64>,
    }

    impl axum::body::HttpBody for Sized {
        type Data = axum::body::Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            self.length.map_or_else(hyper::body::SizeHint::default, hyper::body::SizeHint::with_exact)
        }
    }

    #[test]
    fn bucket_refills_at_its_rate_up_to_the_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::new(QuotaLimits { requests_max: 1, per_second: 10, burst: 3 }, start);
        let mut taken = |after_ms| {
            let now = start + Duration::from_millis(after_ms);
            (0..10).take_while(|_| bucket.take(now)).count()
        };
        assert_eq!(taken(0), 3);
        assert_eq!(taken(99), 0);
        assert_eq!(taken(100), 1);
        assert_eq!(taken(350), 2);
        assert_eq!(taken(3_600_000), 3, "never more than the burst");
    }
}
