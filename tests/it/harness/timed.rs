//! The whole gateway in process, every part real except the clock, which moves only when a test moves it.

use super::world::{Answer, World, parsed, real_ports};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use gateway_api::state::App;
use gateway_domain::time::EpochMs;
use gateway_engine::Ports;
use gateway_engine::ports::ReadClock;
use gateway_runtime::EmbeddedFleet;
use operation_gateway::settings::Settings;
use operation_gateway::{SystemClock, compose};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Starts at the system's time, which the nodes use.
struct Clock(AtomicU64);

impl ReadClock for Clock {
    fn now(&self) -> EpochMs {
        EpochMs(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) struct TimedWorld {
    world: World,
    ports: Ports,
    fleet: Arc<EmbeddedFleet>,
    clock: Arc<Clock>,
}

impl Deref for TimedWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl TimedWorld {
    pub(crate) async fn start(given: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parsed(folder.path(), given);
        let clock = Arc::new(Clock(AtomicU64::new(SystemClock.now().0)));
        Self::open(settings, folder, clock).await
    }

    async fn open(settings: Settings, folder: TempDir, clock: Arc<Clock>) -> Self {
        let (store, fleet, ports) = real_ports(&settings, &settings, clock.clone()).await;
        let app = Self::app(&settings, ports.clone());
        let world = World::of(app, store, Default::default(), settings, folder);
        Self { world, ports, fleet, clock }
    }

    fn app(settings: &Settings, ports: Ports) -> App {
        let authenticator = compose::open_authenticator(settings).unwrap();
        compose::app(settings, compose::rules(settings), authenticator, ports)
    }

    /// Moves the clock, forward or back.
    pub(crate) fn advance_ms(&self, ms: i64) {
        let now_ms = self.clock.0.load(Ordering::SeqCst);
        self.clock.0.store(now_ms.saturating_add_signed(ms), Ordering::SeqCst);
    }

    /// The router of a second engine on the same store, as another replica has.
    pub(crate) fn replica(&self) -> Router {
        gateway_api::router(Self::app(&self.settings, self.ports.clone()))
    }

    /// The same data in a new engine, as after a restart; the clock stays.
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

/// Sends a submission to one of several routers.
pub(crate) async fn post_to(router: Router, path: &str, body: &Value) -> Answer {
    World::answer_of(router, Request::post(path).body(Body::from(body.to_string())).unwrap()).await
}

/// Sends a request without a body to any router.
pub(crate) async fn send_to(router: Router, request: axum::http::request::Builder) -> Answer {
    World::answer_of(router, request.body(Body::empty()).unwrap()).await
}
