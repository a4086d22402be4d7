//! Serves the API, and stops without losing work in progress.

use crate::compose::{self, Gateway};
use crate::gauges;
use crate::nodes::{self, Reported};
use crate::replicas::Replicas;
use crate::retention::{self, Retention};
use crate::services::{self, OpenFleet};
use crate::settings::{Exception, Profile, Settings};
use crate::{webhooks, witnesses};
use gateway_api::state::App;
use gateway_engine::Engine;
use gateway_policy::TrustFile;
use gateway_policy_host::Lifecycle;
use gateway_service::StartError;
use gateway_service::process::{Followed, Listeners, log_reading};
use gateway_service::rounds::{Cause, Rounds, until_stopped};
use gateway_service::signals::Signals;
use gateway_service::system_limits;
use gateway_service::transport::Tls;
use gateway_store::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Serves until SIGTERM or SIGINT, and then until requests and work in progress are finished.
///
/// Policy and certificates are read first, then the ports are bound, and only then is anything written. A start that fails
/// before that leaves nothing behind.
pub async fn serve(settings: &Settings) -> Result<(), StartError> {
    let signals = Signals::listen();
    settings.general.production_exceptions.iter().for_each(Exception::warn);
    system_limits::raise_files(n_files(settings))?;
    let mut witnesses = witnesses::open(settings)?;
    let webhooks = webhooks::open(settings)?;
    let policy = compose::open_policy(settings)?;
    let tls = open_tls(settings)?;
    let mut stopping = signals.stop.watch();
    if !database_answers(settings, &mut stopping).await? {
        return Ok(());
    }
    // A caller that connects gets an answer soon.
    let (addresses, limits) = (&settings.server, settings.limits);
    let (served, until) = (tls.clone(), stopping.clone());
    let listeners = Listeners::bind("api", addresses.bind, addresses.admin_bind, served, until).await?;
    let mut gateway = compose::open(settings, policy).await?;
    let engine = gateway.app.engine().clone();
    witnesses::compare(settings, witnesses.as_mut(), &engine).await?;
    let keys = engine.check_every_holder().await;
    keys.map_err(|error| StartError::new("nodes", error))?;
    let mut reported = Reported::default();
    reported.report(&engine).await;
    let replicas = Replicas::new(&gateway, settings)?;
    let met = replicas.compare(None).await.map_err(|error| StartError::new("database", error))?;
    gateway.policies.permit_activations(engine.may_write());
    gateway.policies.reload_if_changed().await;
    let mut tasks = JoinSet::new();
    watch_store(&mut tasks, settings, &gateway, &stopping);
    tasks.spawn(watch_policies(
        gateway.policies.clone(),
        engine.clone(),
        node_trust(settings, &gateway),
        Rounds::every_or_on(settings.policy.watch, signals.policies, stopping.clone()),
    ));
    tasks.spawn(watch_files(
        Followed { tls, verifiers: gateway.verifiers.take() },
        gateway.app.clone(),
        Rounds::every_or_on(settings.policy.watch, signals.files, stopping.clone()),
    ));
    tasks.spawn(witnesses::watch(witnesses, engine.clone(), settings.log.witness_every, stopping.clone()));
    webhooks::start(webhooks, &mut tasks, engine.clone(), gateway.store.clone(), signals.webhooks, &stopping);
    tasks.spawn(nodes::watch(engine, reported, stopping.clone()));
    tasks.spawn(replicas.watch(met, stopping.clone()));
    announce(settings, &gateway, &listeners);
    let within = settings.general.shutdown_within;
    let (router, admin) =
        (gateway_api::router(gateway.app.clone()), gateway_api::admin_router(gateway.app.clone()));
    listeners.serve(router, admin, limits, within).await;
    let ended = async { while tasks.join_next().await.is_some() {} };
    let _cut_short = tokio::time::timeout(within, ended).await;
    gateway.close(within).await;
    tracing::info!("operation-gateway stopped");
    Ok(())
}

/// Time in which the database's server answers, which may have been started together with the gateway.
const DATABASE_WITHIN: Duration = Duration::from_secs(60);

/// Time between two attempts to connect to it.
const DATABASE_RETRY: Duration = Duration::from_millis(500);

/// Waits for the database's server. False if the gateway is stopped meanwhile.
async fn database_answers(
    settings: &Settings,
    stopping: &mut watch::Receiver<bool>,
) -> Result<bool, StartError> {
    let deadline = Instant::now() + DATABASE_WITHIN;
    let mut reported = String::new();
    loop {
        let reached = tokio::select! {
            reached = Store::reach(&settings.general.database_url) => reached,
            () = until_stopped(stopping) => return Ok(false),
        };
        let Err(error) = reached else { return Ok(true) };
        if !error.is_unreachable() || Instant::now() >= deadline {
            return Err(StartError::new("database", error));
        }
        let why = error.to_string();
        if why != reported {
            tracing::warn!(why, "waiting for the database's server");
            reported = why;
        }
        tokio::select! {
            () = tokio::time::sleep(DATABASE_RETRY) => {}
            () = until_stopped(stopping) => return Ok(false),
        }
    }
}

/// Starts the tasks that only work on the store, until the gateway stops.
fn watch_store(
    tasks: &mut JoinSet<()>,
    settings: &Settings,
    gateway: &Gateway,
    stopping: &watch::Receiver<bool>,
) {
    let (store, engine) = (&gateway.store, gateway.app.engine());
    let (follower, mut stopped) = (engine.clone(), stopping.clone());
    tasks.spawn(async move { follower.follow_log(until_stopped(&mut stopped)).await });
    let rounds = Rounds::every(settings.general.reconcile_every, stopping.clone());
    tasks.spawn(reconcile(engine.clone(), rounds));
    tasks.spawn(gauges::watch(store.clone(), gateway_service::now, stopping.clone()));
    let kept = Retention::of(settings);
    tasks.spawn(retention::run(store.clone(), engine.clone(), kept, gateway_service::now, stopping.clone()));
}

/// Open files besides connections and nodes: the gateway's database, policies, pipes.
const FILES_OF_GATEWAY: u64 = 256;

/// Open files of a node: its database, journal and shared memory, for each reader and the writer.
const FILES_OF_NODE: u64 = 16;

/// The files that the gateway may have open. Each connection is an open file.
fn n_files(settings: &Settings) -> u64 {
    let n_listeners = 1 + u64::from(settings.server.admin_bind.is_some());
    let connections_max = u64::try_from(settings.limits.connections_max).unwrap_or(u64::MAX);
    let n_of_nodes = u64::from(settings.nodes.count()).saturating_mul(FILES_OF_NODE);
    let n_of_webhooks =
        settings.operations.webhooks_file.as_ref().map_or(0, |_| webhooks::CONNECTIONS_MAX as u64);
    let n_others = n_of_nodes.saturating_add(n_of_webhooks).saturating_add(FILES_OF_GATEWAY);
    connections_max.saturating_mul(n_listeners).saturating_add(n_others)
}

/// Logs where the gateway listens; in development also what to try next.
fn announce(settings: &Settings, gateway: &Gateway, listeners: &Listeners) {
    let address = listeners.address().map(tracing::field::display);
    tracing::info!(
        address,
        admin_address = listeners.admin_address().map(tracing::field::display),
        tls = settings.tls.files.is_some(),
        profile = ?settings.general.profile,
        log_key = %gateway.app.engine().log_key(),
        "operation-gateway listens"
    );
    if settings.general.profile == Profile::Development {
        let address = address.map_or_else(|| settings.server.bind.to_string(), |address| address.to_string());
        tracing::info!("try `scripts/quickstart`, or read http://{address}/v1/openapi.json");
    }
}

fn open_tls(settings: &Settings) -> Result<Option<Arc<Tls>>, StartError> {
    let tls = settings.tls.files.clone().map(Tls::open).transpose();
    Ok(tls.map_err(|error| StartError::new("tls", error))?.map(Arc::new))
}

/// Resumes unfinished operations, now and at intervals.
async fn reconcile(engine: Engine, mut rounds: Rounds) {
    while rounds.next().await.is_some() {
        if engine.reconcile().await > 0 {
            rounds.hurry();
        }
    }
}

/// The trust roots of embedded nodes. Nodes in processes of their own have their own.
fn node_trust(settings: &Settings, gateway: &Gateway) -> Option<TrustFile> {
    match &gateway.fleet {
        OpenFleet::Embedded(fleet) => Some(services::trust_file(settings, fleet.policy_trust().clone())),
        OpenFleet::Remote(_) => None,
    }
}

/// Reads changed bundles and trust roots at intervals, and all bundles on SIGHUP.
async fn watch_policies(
    policies: Arc<Lifecycle>,
    engine: Engine,
    mut node_trust: Option<TrustFile>,
    mut rounds: Rounds,
) {
    while let Some(cause) = rounds.next().await {
        node_trust.iter_mut().for_each(TrustFile::reload_if_changed);
        policies.permit_activations(engine.may_write());
        match cause {
            Cause::Interval => policies.reload_if_changed().await,
            Cause::Hangup => {
                tracing::info!("reading the policy bundles again on SIGHUP");
                policies.reload().await;
            }
        }
    }
}

/// Reads a changed registry of approvers at intervals, and on SIGHUP the registry, the certificates and the issuer's keys. If new
/// keys cannot be used, the current ones stay.
async fn watch_files(mut followed: Followed, app: App, mut rounds: Rounds) {
    while let Some(cause) = rounds.next().await {
        followed.read_again(cause);
        if cause == Cause::Hangup
            && let Some(reading) = app.authenticator().reload_keys().await
        {
            log_reading("the issuer's keys", reading.map_err(Into::into));
        }
    }
}

impl Gateway {
    /// Finishes work in progress and closes the stores.
    pub async fn close(self, within: Duration) {
        if tokio::time::timeout(within, self.app.engine().finish()).await.is_err() {
            tracing::warn!("stopping with work in progress; the next start resumes it");
        }
        if let OpenFleet::Embedded(fleet) = &self.fleet {
            fleet.close().await;
        }
        self.store.close().await;
    }
}
