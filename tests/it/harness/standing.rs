//! The whole gateway in process, every part the real one but its clock, which stands still until a test moves it.

use super::world::{Answer, World, parsed};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use gateway_api::state::App;
use gateway_authority::{EmbeddedAuthority, LogSigner};
use gateway_domain::time::EpochMs;
use gateway_engine::Ports;
use gateway_engine::ports::TellTime;
use gateway_runtime::EmbeddedFleet;
use gateway_seal::key_file;
use gateway_store::Store;
use operation_gateway::settings::Settings;
use operation_gateway::{SystemClock, compose};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Begins at the system's instant, which is the nodes'.
struct Clock(AtomicU64);

impl TellTime for Clock {
    fn now(&self) -> EpochMs {
        EpochMs(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) struct Standing {
    world: World,
    ports: Ports,
    fleet: Arc<EmbeddedFleet>,
    clock: Arc<Clock>,
}

impl Deref for Standing {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Standing {
    pub(crate) async fn start(given: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parsed(folder.path(), given);
        let clock = Arc::new(Clock(AtomicU64::new(SystemClock.now().0)));
        Self::open(settings, folder, clock).await
    }

    async fn open(settings: Settings, folder: TempDir, clock: Arc<Clock>) -> Self {
        let store = Arc::new(Store::open(&settings.database_url).await.unwrap());
        let policy = compose::open_policy(&settings).unwrap();
        let policies =
            compose::open_lifecycle(&settings, policy, store.clone(), clock.clone()).await.unwrap();
        let authority = EmbeddedAuthority::new(&key_file::load_or_create(&settings.authority.key).unwrap());
        let fleet = compose::open_fleet(&settings, authority.public_key()).await.unwrap();
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
            clock: clock.clone(),
        };
        let app = Self::app(&settings, ports.clone());
        let world = World::of(app, store, Default::default(), settings, folder);
        Self { world, ports, fleet, clock }
    }

    fn app(settings: &Settings, ports: Ports) -> App {
        let authenticator = compose::open_authenticator(settings).unwrap();
        compose::app(settings, compose::rules(settings), authenticator, ports)
    }

    /// Moves the clock, also back.
    pub(crate) fn pass_ms(&self, ms: i64) {
        let now_ms = self.clock.0.load(Ordering::SeqCst);
        self.clock.0.store(now_ms.saturating_add_signed(ms), Ordering::SeqCst);
    }

    /// The router of another engine on the same store, as another replica has.
    pub(crate) fn twin(&self) -> Router {
        gateway_api::router(Self::app(&self.settings, self.ports.clone()))
    }

    /// The same data in a new process, as far as they can tell; the clock stands where it stood.
    pub(crate) async fn restarted(self) -> Self {
        let Self { world, ports, fleet, clock } = self;
        world.engine.finish().await;
        drop(ports);
        fleet.close().await;
        world.store.close().await;
        let (settings, folder) = world.into_parts();
        Self::open(settings, folder, clock).await
    }
}

/// A submission to one of several routers.
pub(crate) async fn post_to(router: Router, path: &str, body: &Value) -> Answer {
    World::answer_of(router, Request::post(path).body(Body::from(body.to_string())).unwrap()).await
}

/// A request without a body, to any router.
pub(crate) async fn send_to(router: Router, request: axum::http::request::Builder) -> Answer {
    World::answer_of(router, request.body(Body::empty()).unwrap()).await
}
