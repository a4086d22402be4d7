//! The whole gateway in this process, with real nodes, policy and store, on a temporary folder.

use super::documented;
use super::faulty::{Faults, FaultyNodes};
use super::pausing::{Pause, Pausing};
use super::recording::{Evaluation, RecordingPolicy};
use crate::reads::Reads;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use gateway_api::state::App;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadClock;
use gateway_engine::{Engine, Ports, Rules};
use gateway_evidence::roots::RootsFile;
use gateway_fleet::EmbeddedFleet;
use gateway_seal::key_file;
use gateway_service::settings::ProcessSettings;
use gateway_service::transport::Peer;
use gateway_store::Store;
use operation_gateway::log_signer::LogSigner;
use operation_gateway::settings::{Profile, Settings, resolve};
use operation_gateway::{SystemClock, compose};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tower::ServiceExt;

/// A gateway in this process. A *ticking* world can also pause reads, record evaluations and make nodes fail.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Store>,
    /// Pauses the next read of a key; has no effect in a world that is not ticking.
    pub(crate) pause: Arc<Mutex<Option<Pause>>>,
    /// The policy evaluations so far; stays empty in a world that is not ticking.
    pub(crate) evaluations: Arc<Mutex<Vec<Evaluation>>>,
    /// The faults of the nodes; have no effect in a world that is not ticking.
    pub(crate) faults: Arc<Faults>,
    pub(crate) settings: Settings,
    folder: TempDir,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
    pub(crate) json: Value,
}

impl Answer {
    /// The JSON body; the status must be 200.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.json);
        self.json
    }

    /// The error message; status and error code must be these.
    #[track_caller]
    pub(crate) fn fails(self, status: u16, code: &str) -> String {
        assert_eq!(
            (self.status.as_u16(), self.json["error"].as_str()),
            (status, Some(code)),
            "{}",
            self.json
        );
        let members = self.json.as_object().unwrap().keys();
        let members: Vec<_> = members
            .filter(|name| !["errors", "reasons", "bundle_hash", "decision_id"].contains(&name.as_str()))
            .collect();
        assert_eq!(members, ["error", "message", "request_id"], "members of an error body");
        assert_eq!(self.json["request_id"], self.header("x-request-id"));
        self.json["message"].as_str().unwrap().to_owned()
    }

    /// The body without the id of its request, to compare errors.
    pub(crate) fn without_request_id(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap().replace(self.header("x-request-id"), "")
    }

    /// The value of a header; empty if the header is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Settings of a gateway that keeps all its data in `folder`: the tests' defaults, overridden by `overrides`.
pub(crate) fn settings(folder: &Path, overrides: &[(&str, &str)]) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let mut flags = BTreeMap::from([
        ("database_url".to_owned(), format!("sqlite://{}", path(&folder.join("gateway.db")))),
        ("node_directory".to_owned(), path(&folder.join("nodes"))),
        ("authority_key".to_owned(), path(&folder.join("authority.key"))),
        ("log_key".to_owned(), path(&folder.join("log.key"))),
        ("witnessed_checkpoint".to_owned(), path(&folder.join("log.checkpoint"))),
        ("policy_bundle".to_owned(), path(&root.join("bundles/payment-guard"))),
        ("policy_trust_roots".to_owned(), path(&root.join("bundles/trust-development.json"))),
        ("admission_rate".to_owned(), "0".to_owned()),
        ("bind".to_owned(), "127.0.0.1:0".to_owned()),
    ]);
    flags.extend(overrides.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    flags
}

/// As [`settings`], parsed.
pub(crate) fn parse_settings(folder: &Path, overrides: &[(&str, &str)]) -> Settings {
    Settings::parse(&resolve(&settings(folder, overrides), [], None).unwrap()).unwrap()
}

/// Advances by a millisecond at each reading.
struct TickingClock;

impl ReadClock for TickingClock {
    fn now(&self) -> EpochMs {
        // Starts a minute behind the nodes' clock, which is the system's: a test reads the clock fewer than 60,000 times.
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(SystemClock.now().0 - 60_000));
        EpochMs(NEXT.fetch_add(1, Ordering::SeqCst))
    }
}

/// The parts that production has, except the clock. The nodes may have other settings than the gateway.
pub(super) async fn real_ports(
    settings: &Settings,
    node_settings: &Settings,
    clock: Arc<dyn ReadClock>,
) -> (Arc<Store>, Arc<EmbeddedFleet>, Ports) {
    let store = Arc::new(Store::open(&settings.general.database_url).await.unwrap());
    let policy = compose::open_policy(settings).unwrap();
    let policies =
        compose::open_lifecycle(settings, policy, store.clone(), clock.clone(), true).await.unwrap();
    let compiled = compose::compiled_bundles(&policies);
    let authority =
        compose::open_embedded_authority(settings, &store, &policies, Arc::clone(&compiled)).unwrap();
    let keys = &authority.public_keys;
    let fleet = compose::open_fleet(node_settings, keys, &policies, compiled).await.unwrap();
    let log_seed = key_file::load_or_create(&settings.log.key).unwrap();
    let ports = Ports {
        commits: store.clone(),
        reads: store.clone(),
        lists: store.clone(),
        decisions: store.clone(),
        log: store.clone(),
        webhooks: store.clone(),
        checkpoints: Arc::new(LogSigner::new(settings.log_origin.clone(), &log_seed)),
        policy: policies.host(),
        policies,
        authority: authority.port,
        nodes: fleet.clone(),
        clock,
    };
    (store, fleet, ports)
}

pub(super) fn open_app(settings: &Settings, ports: Ports) -> App {
    let authenticator = compose::open_authenticator(settings).unwrap();
    compose::app(settings, compose::rules(settings), authenticator, ports)
}

impl World {
    /// As in production, with the tests' default settings.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// As in production, with these settings.
    pub(crate) async fn with(overrides: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parse_settings(folder.path(), overrides);
        let policy = compose::open_policy(&settings).unwrap();
        let gateway = compose::open(&settings, policy).await.unwrap();
        Self::new(gateway.app, gateway.store, settings, folder)
    }

    /// As in production, but events wait for the outcome that they are committed with even where everything is slow.
    pub(crate) async fn patient() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parse_settings(folder.path(), &[]);
        let (store, _, ports) = real_ports(&settings, &settings, Arc::new(SystemClock)).await;
        let rules = Rules { recorded_within: Duration::MAX, ..compose::rules(&settings) };
        let app = compose::app(&settings, rules, compose::open_authenticator(&settings).unwrap(), ports);
        Self::new(app, store, settings, folder)
    }

    /// With a clock that advances at each reading, nodes that a test can make fail, and recorded policy evaluations.
    pub(crate) async fn ticking() -> Self {
        Self::ticking_with(&[]).await
    }

    /// As [`Self::ticking`], with these settings.
    pub(crate) async fn ticking_with(overrides: &[(&str, &str)]) -> Self {
        Self::ticking_with_node_settings(overrides, &[]).await
    }

    /// As [`Self::ticking_with`]; `node_overrides` overrides `overrides` for the nodes.
    pub(crate) async fn ticking_with_node_settings(
        overrides: &[(&str, &str)],
        node_overrides: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parse_settings(folder.path(), overrides);
        let node_settings = parse_settings(folder.path(), &[overrides, node_overrides].concat());
        Self::ticking_from(folder, settings, node_settings, Profile::Development).await
    }

    /// As [`Self::ticking`], with the rules of the production profile for requests.
    pub(crate) async fn ticking_in_production() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = || parse_settings(folder.path(), &[]);
        let (settings, node_settings) = (settings(), settings());
        Self::ticking_from(folder, settings, node_settings, Profile::Production).await
    }

    /// `profile` applies to requests only: the policy and the keys are the tests' own.
    async fn ticking_from(
        folder: TempDir,
        mut settings: Settings,
        node_settings: Settings,
        profile: Profile,
    ) -> Self {
        let (store, real, ports) = real_ports(&settings, &node_settings, Arc::new(TickingClock)).await;
        let pause: Arc<Mutex<Option<Pause>>> = Arc::default();
        let evaluations: Arc<Mutex<Vec<Evaluation>>> = Arc::default();
        let faults: Arc<Faults> = Arc::default();
        let ports = Ports {
            reads: Arc::new(Reads(Pausing { store: store.clone(), next: pause.clone() })),
            policy: Arc::new(RecordingPolicy { host: ports.policy, evaluations: evaluations.clone() }),
            nodes: Arc::new(FaultyNodes::new(faults.clone(), real)),
            ..ports
        };
        settings.general.profile = profile;
        let app = open_app(&settings, ports);
        Self { pause, evaluations, faults, ..Self::new(app, store, settings, folder) }
    }

    pub(super) fn new(app: App, store: Arc<Store>, settings: Settings, folder: TempDir) -> Self {
        Self {
            router: gateway_api::router(app.clone()),
            engine: app.engine().clone(),
            store,
            pause: Arc::default(),
            evaluations: Arc::default(),
            faults: Arc::default(),
            settings,
            folder,
        }
    }

    /// The trust roots with which a reader verifies this gateway's evidence.
    pub(crate) async fn roots(&self) -> RootsFile {
        operation_gateway::evidence::roots(&self.settings).await.unwrap()
    }

    /// Follows the log, as a running gateway does. Without it a stream of events ends at the present end of the log.
    pub(crate) fn follow(&self) {
        let engine = self.engine.clone();
        tokio::spawn(async move { engine.follow_log(std::future::pending()).await });
    }

    /// The folder that has all data of the gateway and its nodes.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What a restart keeps: the settings and the folder.
    pub(super) fn into_parts(self) -> (Settings, TempDir) {
        (self.settings, self.folder)
    }

    /// Sends a request; the OpenAPI document must list its answer.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        Self::send_to(self.router.clone(), request).await
    }

    /// As [`Self::send`], to any router. Without a peer in its extensions, the request comes from 127.0.0.1.
    pub(crate) async fn send_to(router: Router, mut request: Request<Body>) -> Answer {
        let local = Peer { address: Ipv4Addr::LOCALHOST.into(), certificate_sha256: None };
        request.extensions_mut().get_or_insert(local);
        request.headers_mut().entry("host").or_insert(HeaderValue::from_static("gateway"));
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        documented::assert_documented(&method, &path, parts.status.as_u16(), &json);
        Answer { status: parts.status, headers: parts.headers, bytes: bytes.to_vec(), json }
    }

    /// The body of the answer to `GET path`, whatever its status.
    pub(crate) async fn text(&self, path: &str) -> String {
        let response = self
            .router
            .clone()
            .oneshot(Request::get(path).header("host", "gateway").body(Body::empty()).unwrap())
            .await;
        let bytes = to_bytes(response.unwrap().into_body(), usize::MAX).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    pub(crate) async fn post_nothing(&self, path: &str) -> Answer {
        self.send(Request::post(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Posts each body to its path, concurrently; the answers are in the order of the calls.
    pub(crate) async fn post_concurrently(self: &Arc<Self>, calls: Vec<(String, Value)>) -> Vec<Answer> {
        let calls = calls.into_iter().map(|(path, body)| {
            let world = Arc::clone(self);
            tokio::spawn(async move { world.post(&path, &body).await })
        });
        let mut answers = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            answers.push(call.await.unwrap());
        }
        answers
    }

    /// Sends a request with these headers, such as those of a caller's identity.
    pub(crate) async fn call_as(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }
}
