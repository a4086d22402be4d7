//! The whole gateway in process, every part real, on its own folder.

use super::documented;
use super::faulty::{Faults, FaultyNodes};
use super::pausing::{Pause, PausingStore};
use super::recording::{Evaluation, Recording};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use gateway_api::state::App;
use gateway_auth::Peer;
use gateway_authority::{EmbeddedAuthority, LogSigner};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadClock;
use gateway_engine::{Engine, Ports};
use gateway_evidence::roots::RootsFile;
use gateway_runtime::EmbeddedFleet;
use gateway_seal::key_file;
use gateway_store::Store;
use operation_gateway::settings::{Settings, resolve};
use operation_gateway::{SystemClock, compose};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use tempfile::TempDir;
use tower::ServiceExt;

/// The paused reader, and the recorded evaluations.
pub(super) type Watched = (Arc<Mutex<Option<Pause>>>, Arc<Mutex<Vec<Evaluation>>>);

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Store>,
    /// The reader to pause after it read a key; used only by [`World::with_faults`].
    pub(crate) pause: Arc<Mutex<Option<Pause>>>,
    /// The recorded policy evaluations; filled only by [`World::with_faults`].
    pub(crate) evaluations: Arc<Mutex<Vec<Evaluation>>>,
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
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.json);
        self.json
    }

    #[track_caller]
    pub(crate) fn fails(self, status: u16, code: &str) -> String {
        assert_eq!(
            (self.status.as_u16(), self.json["error"].as_str()),
            (status, Some(code)),
            "{}",
            self.json
        );
        let members: Vec<_> = self.json.as_object().unwrap().keys().collect();
        assert_eq!(members, ["error", "message"], "members of an error body");
        self.json["message"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Settings of a gateway that has all its data in `folder`.
pub(crate) fn settings(folder: &Path, given: &[(&str, &str)]) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let mut flags = BTreeMap::from([
        ("database_url".to_owned(), format!("sqlite://{}", path(&folder.join("gateway.db")))),
        ("node_directory".to_owned(), path(&folder.join("nodes"))),
        ("authority_key".to_owned(), path(&folder.join("authority.key"))),
        ("log_key".to_owned(), path(&folder.join("log.key"))),
        ("policy_bundle".to_owned(), path(&root.join("bundles/payment-guard"))),
        ("policy_trust_roots".to_owned(), path(&root.join("bundles/trust-development.json"))),
        ("admission_rate".to_owned(), "0".to_owned()),
        ("bind".to_owned(), "127.0.0.1:0".to_owned()),
    ]);
    flags.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    flags
}

pub(crate) fn parsed(folder: &Path, given: &[(&str, &str)]) -> Settings {
    Settings::parse(&resolve(&settings(folder, given), [], None).unwrap()).unwrap()
}

/// Every call returns a later instant.
struct Clock;

impl ReadClock for Clock {
    fn now(&self) -> EpochMs {
        // Starts a minute behind the nodes' clock, which is the system's: a test reads the clock fewer than 60,000 times.
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(SystemClock.now().0 - 60_000));
        EpochMs(NEXT.fetch_add(1, Ordering::SeqCst))
    }
}

/// Everything real but the clock; the nodes may have settings of their own.
pub(super) async fn real_ports(
    settings: &Settings,
    of_nodes: &Settings,
    clock: Arc<dyn ReadClock>,
) -> (Arc<Store>, Arc<EmbeddedFleet>, Ports) {
    let store = Arc::new(Store::open(&settings.database_url).await.unwrap());
    let policy = compose::open_policy(settings).unwrap();
    let policies = compose::open_lifecycle(settings, policy, store.clone(), clock.clone()).await.unwrap();
    let authority = EmbeddedAuthority::new(&key_file::load_or_create(&settings.authority.key).unwrap());
    let fleet = compose::open_fleet(of_nodes, authority.public_key()).await.unwrap();
    let log_seed = key_file::load_or_create(&settings.log.key).unwrap();
    let ports = Ports {
        commits: store.clone(),
        reads: store.clone(),
        log: store.clone(),
        checkpoints: Arc::new(LogSigner::new(settings.log.origin.clone(), &log_seed)),
        policy: policies.host(),
        policies,
        authority: Arc::new(authority),
        nodes: fleet.clone(),
        clock,
    };
    (store, fleet, ports)
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(given: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parsed(folder.path(), given);
        let policy = compose::open_policy(&settings).unwrap();
        let gateway = compose::open(&settings, policy).await.unwrap();
        Self::of(gateway.app, gateway.store, Default::default(), settings, folder)
    }

    /// Everything real; every event has another instant.
    pub(crate) async fn ticking() -> Self {
        Self::with_faults(Arc::default(), &[]).await
    }

    /// Everything real, with its own clock and with faults that can be switched on.
    pub(crate) async fn with_faults(faults: Arc<Faults>, given: &[(&str, &str)]) -> Self {
        Self::with_node_settings(faults, given, &[]).await
    }

    /// As [`Self::with_faults`]; the nodes have settings that differ from the gateway's.
    pub(crate) async fn with_node_settings(
        faults: Arc<Faults>,
        given: &[(&str, &str)],
        nodes_given: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parsed(folder.path(), given);
        let of_nodes = parsed(folder.path(), &[given, nodes_given].concat());
        let (store, real, ports) = real_ports(&settings, &of_nodes, Arc::new(Clock)).await;
        let pause: Arc<Mutex<Option<Pause>>> = Arc::default();
        let evaluations: Arc<Mutex<Vec<Evaluation>>> = Arc::default();
        let ports = Ports {
            reads: Arc::new(PausingStore { store: store.clone(), next: pause.clone() }),
            policy: Arc::new(Recording { host: ports.policy, evaluations: evaluations.clone() }),
            nodes: Arc::new(FaultyNodes::new(faults, real)),
            ..ports
        };
        let rules = compose::rules(&settings);
        let authenticator = compose::open_authenticator(&settings).unwrap();
        let app = compose::app(&settings, rules, authenticator, ports);
        Self::of(app, store, (pause, evaluations), settings, folder)
    }

    pub(super) fn of(
        app: App,
        store: Arc<Store>,
        (pause, evaluations): Watched,
        settings: Settings,
        folder: TempDir,
    ) -> Self {
        Self {
            router: gateway_api::router(app.clone()),
            engine: app.engine().clone(),
            store,
            pause,
            evaluations,
            settings,
            folder,
        }
    }

    /// The roots that a reader of its evidence trusts.
    pub(crate) async fn roots(&self) -> RootsFile {
        operation_gateway::evidence::roots(&self.settings).await.unwrap()
    }

    /// The folder of all its data.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The settings and the folder, which survive a restart.
    pub(super) fn into_parts(self) -> (Settings, TempDir) {
        (self.settings, self.folder)
    }

    /// Sends a request; the answer must be one that the OpenAPI document lists.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        Self::answer_of(self.router.clone(), request).await
    }

    /// Adds the peer address that the server would add; 127.0.0.1 by default.
    pub(super) async fn answer_of(router: Router, mut request: Request<Body>) -> Answer {
        let here = Peer { address: Ipv4Addr::LOCALHOST.into(), certificate_sha256: None };
        request.extensions_mut().get_or_insert(here);
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        documented::check(&method, &path, parts.status.as_u16(), &json);
        Answer { status: parts.status, headers: parts.headers, bytes: bytes.to_vec(), json }
    }

    /// `GET`, for an answer that is text.
    pub(crate) async fn text(&self, path: &str) -> String {
        let response = self.router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await;
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

    /// A request with identity headers.
    pub(crate) async fn call_as(
        &self,
        identity: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in identity {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }
}
