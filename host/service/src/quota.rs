//! The quota of each caller: a limit of simultaneous requests, and a rate over time. A caller at its limit does not slow another one.

use crate::answer::ErrorAnswer;
use crate::telemetry::Descriptions;
use crate::transport::Caller;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics::counter;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The counters of this module with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions =
    &[(REFUSED, "Requests refused because of their caller's quota, by caller and reason")];

const REFUSED: &str = "operation_gateway_caller_requests_refused_total";

/// The label of requests without a named caller, which only a router in a test gets.
const UNNAMED: &str = "(unnamed)";

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
    permits: Semaphore,
    bucket: Mutex<Bucket>,
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
        Self { permits: Semaphore::new(limits.requests_max), bucket }
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
pub async fn limit(State(quotas): State<Arc<Quotas>>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().map(|caller| Arc::clone(&caller.0));
    let quota = caller.as_ref().and_then(|caller| quotas.by_caller.get(caller)).unwrap_or(&quotas.others);
    let Ok(_permit) = quota.permits.try_acquire() else {
        return refused(caller, "simultaneous", "the caller makes too many requests at the same time");
    };
    let is_taken = quota.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
    if !is_taken {
        return refused(caller, "rate", "the caller makes too many requests");
    }
    next.run(request).await
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
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tokio::sync::Notify;
    use tower::ServiceExt;

    const NAMES: [&str; 2] = ["one.localhost", "two.localhost"];

    /// `/` answers at once, `/wait` when it is notified.
    fn router(limits: QuotaLimits, end: &Arc<Notify>) -> Router {
        let end = Arc::clone(end);
        let wait = move || async move { end.notified().await };
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
        let end = Arc::default();
        let mut limits = QuotaLimits { requests_max: 8, per_second: 1, burst: 3 };
        let slow = router(limits, &end);
        for expected in [200, 200, 200, 429] {
            assert_eq!(status(&slow, NAMES[0]).await, expected);
        }
        assert_eq!(status(&slow, NAMES[1]).await, 200);

        limits = QuotaLimits { requests_max: 2, per_second: 1000, burst: 1000 };
        let busy = router(limits, &end);
        let waiting: Vec<_> =
            (0..2).map(|_| tokio::spawn(busy.clone().oneshot(request(NAMES[0], "/wait")))).collect();
        while status(&busy, NAMES[0]).await == 200 {
            tokio::task::yield_now().await;
        }
        let refused = busy.clone().oneshot(request(NAMES[0], "/")).await.unwrap();
        assert_eq!(refused.status().as_u16(), 429);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert_eq!(status(&busy, NAMES[1]).await, 200);
        for _ in 0..2 {
            end.notify_one();
        }
        for answer in waiting {
            assert_eq!(answer.await.unwrap().unwrap().status().as_u16(), 200);
        }
        assert_eq!(status(&busy, NAMES[0]).await, 200);
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
