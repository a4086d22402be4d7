//! Serves the API, and stops without losing work in progress.

use crate::compose::{self, Gateway};
use crate::gauges;
use crate::node_policy;
use crate::nodes::{self, Reported};
use crate::replicas::Replicas;
use crate::retention::{self, Retention};
use crate::services::OpenFleet;
use crate::settings::{Exception, Profile, Settings};
use crate::{webhooks, witnesses};
use gateway_api::state::App;
use gateway_engine::Engine;
use gateway_policy::TrustFile;
use gateway_policy_host::Lifecycle;
use gateway_policy_host::lifecycle::Cause;
use gateway_service::StartError;
use gateway_service::approvers::Verifiers;
use gateway_service::signals::Signals;
use gateway_service::system_limits;
use gateway_service::transport::{Server, Tls, until_stopped};
use gateway_store::Store;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

/// Serves until SIGTERM or SIGINT, and then until requests and work in progress are finished.
///
/// Policy and certificates are read first, then the ports are bound, and only then is anything written. A start that fails
/// before that leaves nothing behind.
///
/// # Errors
/// [`StartError`] naming the part that failed.
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
    let (listener, address) = bind(settings.server.bind).await?;
    let admin = match settings.server.admin_bind {
        Some(admin) => Some(bind(admin).await?),
        None => None,
    };
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
    gateway.policies.reload(Cause::Watch).await;
    let mut tasks = JoinSet::new();
    watch_store(&mut tasks, settings, &gateway, &stopping);
    tasks.spawn(watch_policies(
        gateway.policies.clone(),
        engine.clone(),
        node_trust(settings, &gateway)?,
        Schedule::new(settings.policy.watch, signals.policies),
        stopping.clone(),
    ));
    tasks.spawn(watch_files(
        tls.clone(),
        gateway.verifiers.take(),
        gateway.app.clone(),
        Schedule::new(settings.policy.watch, signals.files),
        stopping.clone(),
    ));
    tasks.spawn(witnesses::watch(witnesses, engine.clone(), settings.log.witness_every, stopping.clone()));
    webhooks::start(webhooks, &mut tasks, engine.clone(), gateway.store.clone(), signals.webhooks, &stopping);
    tasks.spawn(nodes::watch(engine, reported, stopping.clone()));
    tasks.spawn(replicas.watch(met, stopping.clone()));
    let limits = settings.limits;
    announce(settings, &gateway, address, admin.as_ref().map(|(_, address)| *address));
    let server = Server::new("api", listener, gateway_api::router(gateway.app.clone()), limits, tls);
    let admin = admin.map(|(listener, _)| {
        Server::new("admin", listener, gateway_api::admin_router(gateway.app.clone()), limits, None)
    });
    let serving = async {
        let admin = async {
            if let Some(admin) = admin {
                admin.run(stopping.clone()).await;
            }
        };
        tokio::join!(server.run(stopping.clone()), admin);
    };
    serve_until(settings.general.shutdown_within, stopping.clone(), serving).await;
    let ended = async { while tasks.join_next().await.is_some() {} };
    let _cut_short = tokio::time::timeout(settings.general.shutdown_within, ended).await;
    gateway.close(settings.general.shutdown_within).await;
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
    tasks.spawn(reconcile(engine.clone(), settings.general.reconcile_every, stopping.clone()));
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
fn announce(settings: &Settings, gateway: &Gateway, address: SocketAddr, admin: Option<SocketAddr>) {
    tracing::info!(
        %address,
        admin_address = admin.map(tracing::field::display),
        tls = settings.tls.files.is_some(),
        profile = ?settings.general.profile,
        log_key = %gateway.app.engine().log_key(),
        "operation-gateway listens"
    );
    if settings.general.profile == Profile::Development {
        tracing::info!("try `scripts/quickstart`, or read http://{address}/v1/openapi.json");
    }
}

fn open_tls(settings: &Settings) -> Result<Option<Arc<Tls>>, StartError> {
    let tls = settings.tls.files.clone().map(Tls::open).transpose();
    Ok(tls.map_err(|error| StartError::new("tls", error))?.map(Arc::new))
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| StartError::new(format!("address `{address}`"), error))?;
    let address = listener.local_addr().map_err(|error| StartError::new("address", error))?;
    Ok((listener, address))
}

/// Waits until the servers end, but after the stop at most for `deadline`: clients that keep connections open cannot delay it.
async fn serve_until(
    deadline: Duration,
    mut stopping: watch::Receiver<bool>,
    serving: impl Future<Output = ()>,
) {
    let too_late = async {
        until_stopped(&mut stopping).await;
        tokio::time::sleep(deadline).await;
    };
    tokio::select! {
        () = serving => {}
        () = too_late => {}
    }
}

/// Resumes unfinished operations, now and at intervals.
async fn reconcile(engine: Engine, every: Duration, mut stopping: watch::Receiver<bool>) {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            () = until_stopped(&mut stopping) => return,
        }
        if engine.reconcile().await > 0 {
            rounds.reset_immediately();
        }
    }
}

/// The times at which files are read again: at intervals, and on SIGHUP.
struct Schedule {
    rounds: Option<Interval>,
    hangups: Option<Signal>,
}

impl Schedule {
    fn new(every: Option<Duration>, hangups: Option<Signal>) -> Self {
        let rounds = every.map(|every| {
            let mut rounds = tokio::time::interval(every);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
            rounds
        });
        Self { rounds, hangups }
    }

    /// Waits for the next interval or SIGHUP.
    async fn next(&mut self) -> Cause {
        let round = async {
            match &mut self.rounds {
                Some(rounds) => drop(rounds.tick().await),
                None => std::future::pending().await,
            }
        };
        let hangup = async {
            match &mut self.hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hangup => Cause::Requested,
            () = round => Cause::Watch,
        }
    }
}

/// The trust roots of embedded nodes. Nodes in processes of their own have their own.
fn node_trust(settings: &Settings, gateway: &Gateway) -> Result<Option<TrustFile>, StartError> {
    match &gateway.fleet {
        OpenFleet::Embedded(fleet) => {
            node_policy::trust_file(settings, fleet.policy_trust().clone()).map(Some)
        }
        OpenFleet::Remote(_) => Ok(None),
    }
}

/// Reads changed bundles and trust roots at intervals, and all bundles on SIGHUP.
async fn watch_policies(
    policies: Arc<Lifecycle>,
    engine: Engine,
    mut node_trust: Option<TrustFile>,
    mut schedule: Schedule,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let cause = tokio::select! {
            () = until_stopped(&mut stopping) => return,
            cause = schedule.next() => cause,
        };
        if cause == Cause::Requested {
            tracing::info!("reading the policy bundles again on SIGHUP");
        }
        node_trust.iter_mut().for_each(TrustFile::reload_if_changed);
        policies.permit_activations(engine.may_write());
        policies.reload(cause).await;
    }
}

/// Reads a changed registry of approvers at intervals, and on SIGHUP the registry, the certificates and the issuer's keys. If new
/// certificates or keys cannot be used, the current ones stay. If the registry cannot be used, no approval counts.
async fn watch_files(
    tls: Option<Arc<Tls>>,
    mut verifiers: Option<Verifiers>,
    app: App,
    mut schedule: Schedule,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let cause = tokio::select! {
            () = until_stopped(&mut stopping) => return,
            cause = schedule.next() => cause,
        };
        match (cause, &mut verifiers) {
            (Cause::Watch, Some(verifiers)) => verifiers.reload_if_changed(),
            (Cause::Requested, Some(verifiers)) => verifiers.reload(),
            (Cause::Watch | Cause::Requested, None) => {}
        }
        if let (Cause::Requested, Some(tls)) = (cause, &tls) {
            log_reading("certificates", tls.reload().map_err(Into::into));
        }
        if cause == Cause::Requested
            && let Some(reading) = app.authenticator().reload_keys().await
        {
            log_reading("the issuer's keys", reading.map_err(Into::into));
        }
    }
}

fn log_reading(what: &str, reading: Result<(), Box<dyn Error + Send + Sync>>) {
    match reading {
        Ok(()) => tracing::info!("reloaded {what}"),
        Err(error) => tracing::error!(
            error = gateway_domain::error_chain(error.as_ref()),
            "could not reload {what}; the current ones stay in use"
        ),
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
