//! The whole gateway in process, every part the real one, on a folder of its own.

use super::documented;
use super::faulty::{Faults, FaultyNodes};
use super::overtaken::{HeldUp, Superseded};
use super::recording::{Asked, Recording};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use gateway_api::state::App;
use gateway_auth::Peer;
use gateway_authority::{EmbeddedAuthority, LogSigner};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::TellTime;
use gateway_engine::{Engine, Ports};
use gateway_evidence::roots::RootsFile;
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

/// Who is held up, and what was asked.
pub(super) type Watched = (Arc<Mutex<Option<HeldUp>>>, Arc<Mutex<Vec<Asked>>>);

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Store>,
    /// Who is held up after reading a key; only where there are faults.
    pub(crate) held_up: Arc<Mutex<Option<HeldUp>>>,
    /// What the policy was asked; only where there are faults.
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    pub(crate) settings: Settings,
    folder: TempDir,
}

/// An answer, read to its end.
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
        assert_eq!(members, ["error", "message"], "an error has exactly these");
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

/// The instant of every event differs.
struct Clock;

impl TellTime for Clock {
    fn now(&self) -> EpochMs {
        // A minute behind the nodes, whose clock is the system's: it has no more events than that in milliseconds.
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(SystemClock.now().0 - 60_000));
        EpochMs(NEXT.fetch_add(1, Ordering::SeqCst))
    }
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

    /// Everything real; the instant of every event differs.
    pub(crate) async fn ticking() -> Self {
        Self::with_faults(Arc::default(), &[]).await
    }

    /// Everything real, with faults to be switched on, and a clock of its own.
    pub(crate) async fn with_faults(faults: Arc<Faults>, given: &[(&str, &str)]) -> Self {
        Self::apart(faults, given, &[]).await
    }

    /// As [`Self::with_faults`]; the nodes were given something else than the gateway.
    pub(crate) async fn apart(
        faults: Arc<Faults>,
        given: &[(&str, &str)],
        nodes_given: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parsed(folder.path(), given);
        let of_nodes = parsed(folder.path(), &[given, nodes_given].concat());
        let store = Arc::new(Store::open(&settings.database_url).await.unwrap());
        let held_up: Arc<Mutex<Option<HeldUp>>> = Arc::default();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let clock: Arc<dyn TellTime> = Arc::new(Clock);
        let policy = compose::open_policy(&settings).unwrap();
        let policies =
            compose::open_lifecycle(&settings, policy, store.clone(), clock.clone()).await.unwrap();
        let authority = EmbeddedAuthority::new(&key_file::load_or_create(&settings.authority.key).unwrap());
        let real = compose::open_fleet(&of_nodes, authority.public_key()).await.unwrap();
        let log_seed = key_file::load_or_create(&settings.log.key).unwrap();
        let log_signer = LogSigner::new(settings.log.origin.clone(), &log_seed);
        let ports = Ports {
            commits: store.clone(),
            reads: Arc::new(Superseded { store: store.clone(), next: held_up.clone() }),
            log: store.clone(),
            checkpoints: Arc::new(log_signer),
            policy: Arc::new(Recording { host: policies.host(), asked: asked.clone() }),
            policies,
            authority: Arc::new(authority),
            nodes: Arc::new(FaultyNodes { faults, real }),
            clock,
        };
        let rules = compose::rules(&settings);
        let authenticator = compose::open_authenticator(&settings).unwrap();
        let app = compose::app(&settings, rules, authenticator, ports);
        Self::of(app, store, (held_up, asked), settings, folder)
    }

    pub(super) fn of(
        app: App,
        store: Arc<Store>,
        (held_up, asked): Watched,
        settings: Settings,
        folder: TempDir,
    ) -> Self {
        Self {
            router: gateway_api::router(app.clone()),
            engine: app.engine().clone(),
            store,
            held_up,
            asked,
            settings,
            folder,
        }
    }

    /// What a reader of its evidence believes beforehand.
    pub(crate) async fn roots(&self) -> RootsFile {
        operation_gateway::evidence::roots(&self.settings).await.unwrap()
    }

    /// Where all its data are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What outlives it.
    pub(super) fn into_parts(self) -> (Settings, TempDir) {
        (self.settings, self.folder)
    }

    /// The answer must be one that the OpenAPI document lists.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        Self::answer_of(self.router.clone(), request).await
    }

    /// The server names where a request comes from; without saying, from this machine.
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

    /// An answer that is text.
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

    /// A call with identity headers.
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
