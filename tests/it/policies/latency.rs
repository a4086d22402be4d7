//! A hostile bundle, evaluated without a pause, at most doubles the p99 of other requests, and the queue of evaluations is
//! bounded.
//!
//! The p99 is compared with that under the same load with the default bundle. The two are measured in turns, since the machine
//! may become slower meanwhile, and the median of the ratios counts.

use crate::harness::alarm::Alarm;
use crate::harness::samples::{path, payment};
use crate::harness::wire::{TIMEOUT, read_answer};
use crate::harness::world::settings;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use gateway_policy::testing::{HOSTILE, load_hostile};
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_policy_host::PolicyHost;
use gateway_service::settings::ProcessSettings;
use operation_gateway::compose;
use operation_gateway::settings::{Settings, resolve};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// Connections that request previews without a pause: more than there are threads for evaluations or requests.
const N_LOADING: usize = 8;
/// Connections that send other requests, with a pause of a millisecond.
const N_OTHERS: usize = 4;
const N_ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(300);

/// The promised limit (`host/docs/performance.md`).
const RATIO_MAX: f64 = 2.0;

/// A measurement is repeated if it fails, since the machine may be busy. If evaluations ran on the threads that answer requests,
/// the ratio would be far above the limit every time.
const ATTEMPTS_MAX: usize = 3;

/// Concurrent callers: more than may wait for an evaluation.
const N_CALLERS: usize = 200;

/// A real gateway in this process, on threads of its own, behind a TCP socket.
struct Gateway {
    host: Arc<PolicyHost>,
    router: Router,
    address: SocketAddr,
    runtime: Runtime,
    _folder: TempDir,
}

impl Gateway {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        // Long enough for the last of many evaluations on a machine with few processors.
        let settings = settings(folder.path(), &[("request_within_ms", "600000")]);
        let settings = Settings::parse(&resolve(&settings, [], None).unwrap()).unwrap();
        let policy = compose::open_policy(&settings).unwrap();
        let gateway = runtime.block_on(compose::open(&settings, policy)).unwrap();
        let router = gateway_api::router(gateway.app);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(axum::serve(listener, router.clone()).into_future());
        Self { host: gateway.policies.host(), router, address, runtime, _folder: folder }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Client(BufReader::new(stream))
    }
}

/// A connection that stays open, for one request at a time.
struct Client(BufReader<TcpStream>);

impl Client {
    /// Sends a request; returns the body of the answer, which must be 200.
    fn send(&mut self, request: &[u8]) -> Value {
        self.0.get_mut().write_all(request).unwrap();
        let (status, body) = read_answer(&mut self.0).unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }
}

/// A POST as bytes.
fn post(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The requests as bytes.
struct Requests {
    /// Evaluates the policy.
    preview: Vec<u8>,
    /// Does not evaluate the policy; its time is measured.
    other: Vec<u8>,
}

/// One round: the p99 of other requests in milliseconds, and the reasons in the answers to previews.
fn measure_round(gateway: &Gateway, requests: &Requests) -> (f64, Vec<Value>) {
    let is_over = AtomicBool::new(false);
    let (mut all_ms, reasons) = thread::scope(|scope| {
        let _alarm = Alarm(&is_over);
        let load = || {
            let (mut client, mut reasons) = (gateway.connect(), Vec::new());
            // At least one preview, however late this thread starts.
            loop {
                reasons.push(client.send(&requests.preview)["reasons"].clone());
                if is_over.load(Ordering::Relaxed) {
                    return reasons;
                }
            }
        };
        let loading: Vec<_> = (0..N_LOADING).map(|_| scope.spawn(load)).collect();
        let others: Vec<_> =
            (0..N_OTHERS).map(|_| scope.spawn(|| measure_ms(gateway.connect(), &requests.other))).collect();
        let times_ms: Vec<f64> = others.into_iter().flat_map(|other| other.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        (times_ms, loading.into_iter().flat_map(|load| load.join().unwrap()).collect())
    });
    all_ms.sort_by(f64::total_cmp);
    (all_ms[all_ms.len() * 99 / 100], reasons)
}

/// The time of each answer in milliseconds, for the length of a round.
fn measure_ms(mut client: Client, request: &[u8]) -> Vec<f64> {
    let (began, mut all) = (Instant::now(), Vec::new());
    while began.elapsed() < ROUND {
        let started = Instant::now();
        client.send(request);
        all.push(started.elapsed().as_secs_f64() * 1_000.0);
        // The load that is measured: about a thousand requests a second.
        thread::sleep(Duration::from_millis(1));
    }
    all
}

/// The median over the rounds of p99 with this bundle divided by p99 with the default bundle.
fn measure_ratio(
    gateway: &Gateway,
    requests: &Requests,
    default: &Arc<Evaluator>,
    hostile: &Arc<Evaluator>,
) -> f64 {
    let mut ratios = Vec::new();
    for _ in 0..N_ROUNDS {
        gateway.host.activate(Arc::clone(default));
        let (usual_ms, _) = measure_round(gateway, requests);
        gateway.host.activate(Arc::clone(hostile));
        let (beside_ms, reasons) = measure_round(gateway, requests);
        let are_faults = reasons.iter().all(|it| it.to_string().contains("policy_fault:"));
        assert!(!reasons.is_empty() && are_faults, "{reasons:?}");
        ratios.push(beside_ms / usual_ms);
    }
    ratios.sort_by(f64::total_cmp);
    ratios[N_ROUNDS / 2]
}

#[test]
fn hostile_bundle_at_most_doubles_p99_of_other_requests() {
    let gateway = Gateway::start();
    let default = gateway.host.active().unwrap();
    let mut client = gateway.connect();
    let operation = client.send(&post("/v1/operations/sign", &payment("other")));
    let other = path(&operation["operation"], "");
    let requests = Requests {
        preview: post("/v1/policy/preview", &json!({ "intent": payment("hostile") })),
        other: format!("GET {other} HTTP/1.1\r\nhost: gateway\r\n\r\n").into_bytes(),
    };
    // The others end at once, and so do not load the gateway.
    for (name, pages, evaluate) in HOSTILE.iter().take(3) {
        let hostile = Arc::new(load_hostile(&PolicyEngine::new().unwrap(), *pages, evaluate));
        let mut ratios = Vec::new();
        while ratios.last().is_none_or(|last| *last > RATIO_MAX) {
            assert!(ratios.len() < ATTEMPTS_MAX, "{name}: {ratios:.1?} times the usual p99");
            ratios.push(measure_ratio(&gateway, &requests, &default, &hostile));
        }
        println!("{name}: {ratios:.2?} times the usual p99");
    }
}

#[test]
fn evaluations_above_the_queue_limit_are_refused_immediately() {
    let gateway = Gateway::start();
    let (_, pages, evaluate) = HOSTILE[0];
    gateway.host.activate(load_hostile(&PolicyEngine::new().unwrap(), pages, evaluate));
    let preview = json!({ "intent": payment("queue") }).to_string();
    let calls: Vec<_> = (0..N_CALLERS)
        .map(|_| {
            let (router, preview) = (gateway.router.clone(), preview.clone());
            gateway.runtime.spawn(async move {
                let request = Request::post("/v1/policy/preview")
                    .header("host", "gateway")
                    .body(Body::from(preview))
                    .unwrap();
                let answer = router.oneshot(request).await.unwrap().into_body();
                let answer: Value =
                    serde_json::from_slice(&to_bytes(answer, usize::MAX).await.unwrap()).unwrap();
                answer["reasons"].to_string()
            })
        })
        .collect();
    let answers: Vec<String> =
        calls.into_iter().map(|call| gateway.runtime.block_on(call).unwrap()).collect();
    let n = |fault: &str| answers.iter().filter(|answer| answer.contains(fault)).count();
    let (n_evaluated, n_refused) = (n("policy_fault:out_of_fuel"), n("policy_fault:pool_exhausted"));
    // On a busy machine an evaluation may reach its deadline before it runs out of fuel.
    let n_late = n("policy_fault:deadline");
    assert_eq!(n_evaluated + n_refused + n_late, N_CALLERS, "{answers:?}");
    assert!(
        n_evaluated + n_late > 0 && n_refused > 0,
        "{n_evaluated} evaluated, {n_late} late, {n_refused} refused"
    );
}
