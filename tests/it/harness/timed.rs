//! A [`World`] whose clock moves only when a test moves it, and which can be restarted and replicated.

use super::world::{Answer, World, open_app, parse_settings, real_ports};
use axum::Router;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadClock;
use gateway_engine::{Engine, Ports};
use gateway_fleet::EmbeddedFleet;
use operation_gateway::SystemClock;
use operation_gateway::settings::Settings;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// In milliseconds. It starts at the system's time, which the nodes use.
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
    pub(crate) async fn start(overrides: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = parse_settings(folder.path(), overrides);
        let clock = Arc::new(Clock(AtomicU64::new(SystemClock.now().0)));
        Self::open(settings, folder, clock).await
    }

    async fn open(settings: Settings, folder: TempDir, clock: Arc<Clock>) -> Self {
        let (store, fleet, ports) = real_ports(&settings, &settings, clock.clone()).await;
        let app = open_app(&settings, ports.clone());
        Self { world: World::new(app, store, settings, folder), ports, fleet, clock }
    }

    pub(crate) fn now(&self) -> EpochMs {
        self.clock.now()
    }

    /// Moves the clock forward; back if `ms` is negative.
    pub(crate) fn advance_ms(&self, ms: i64) {
        let now_ms = self.clock.0.load(Ordering::SeqCst);
        self.clock.0.store(now_ms.saturating_add_signed(ms), Ordering::SeqCst);
    }

    /// The router of a second engine on the same store, nodes and clock.
    pub(crate) fn replica(&self) -> Router {
        gateway_api::router(open_app(&self.settings, self.ports.clone()))
    }

    /// A second engine on the same store, nodes and clock.
    pub(crate) fn replica_engine(&self) -> Engine {
        open_app(&self.settings, self.ports.clone()).engine().clone()
    }

    /// Closes the gateway and opens it again on the same data; the clock stays.
    pub(crate) async fn restart(self) -> Self {
        let Self { world, ports, fleet, clock } = self;
        world.engine.finish().await;
        drop(ports);
        fleet.close().await;
        world.store.close().await;
        let (settings, folder) = world.into_parts();
        Self::open(settings, folder, clock).await
    }
}

/// Sends a request without a body to any router.
pub(crate) async fn send_to(router: Router, request: axum::http::request::Builder) -> Answer {
    World::send_to(router, request.body(axum::body::Body::empty()).unwrap()).await
}
