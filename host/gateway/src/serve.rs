//! Listening, and stopping without losing what is in flight.

use crate::compose::{self, Gateway, StartError};
use crate::settings::Settings;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::serve::ListenerExt;
use gateway_auth::Peer;
use gateway_engine::Engine;
use gateway_policy::Lifecycle;
use gateway_policy::lifecycle::Cause;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Serves until told to stop, and then until what is in flight is finished.
///
/// The order of opening is that of harmlessness: the policy is read, the port taken, and only then is anything written.
///
/// # Errors
/// [`StartError`] when something could not be had; nothing is left half-started.
pub async fn serve(settings: &Settings) -> Result<(), StartError> {
    // From here on SIGHUP means to look again, and not to end.
    let hangups = signal(SignalKind::hangup()).ok();
    let policy = compose::open_policy(settings)?;
    let listener = TcpListener::bind(settings.bind).await;
    let listener =
        listener.map_err(|error| StartError::new(format!("address `{}`", settings.bind), error))?;
    let address = listener.local_addr().map_err(|error| StartError::new("address", error))?;
    let gateway = compose::open(settings, policy).await?;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        told_to_stop().await;
        let _nobody_listens = stop.send(true);
    });
    let reconciler =
        tokio::spawn(reconcile(gateway.app.engine().clone(), settings.reconcile_every, stopping.clone()));
    let watcher = tokio::spawn(watch_policies(
        gateway.policies.clone(),
        settings.policy_watch,
        hangups,
        stopping.clone(),
    ));
    let log_key = gateway.app.engine().log_key();
    tracing::info!(%address, profile = ?settings.profile, %log_key, "operation-gateway listens");
    let router = gateway_api::router(gateway.app.clone()).layer(from_fn(name_peer));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let listener = listener.tap_io(|stream| {
        let _only_slower = stream.set_nodelay(true);
    });
    let mut until = stopping.clone();
    let served =
        axum::serve(listener, service).with_graceful_shutdown(async move { is_true(&mut until).await });
    let served = within(settings.shutdown_within, stopping, served.into_future()).await;
    let tasks = async { tokio::join!(reconciler, watcher) };
    let _cut_short = tokio::time::timeout(settings.shutdown_within, tasks).await;
    gateway.close(settings.shutdown_within).await;
    tracing::info!("operation-gateway stopped");
    served.map_err(|error| StartError::new("server", error))
}

/// Says where the connection comes from; a client that wrote so itself is not heard.
async fn name_peer(
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = Peer { address: address.ip().to_canonical(), certificate_sha256: None };
    request.extensions_mut().insert(peer);
    next.run(request).await
}

/// The server's end, or its deadline once it is stopping: a client that never hangs up does not keep it.
async fn within(
    deadline: Duration,
    mut stopping: watch::Receiver<bool>,
    served: impl Future<Output = std::io::Result<()>>,
) -> std::io::Result<()> {
    let too_late = async {
        is_true(&mut stopping).await;
        tokio::time::sleep(deadline).await;
    };
    tokio::select! {
        served = served => served,
        () = too_late => Ok(()),
    }
}

/// Looks for work that nobody drives: at once, for what a crash left, and then in rounds.
async fn reconcile(engine: Engine, every: Duration, mut stopping: watch::Receiver<bool>) {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            _ = is_true(&mut stopping) => return,
        }
        engine.reconcile().await;
    }
}

/// Looks at what is offered in rounds, and considers all of it afresh on SIGHUP.
async fn watch_policies(
    policies: Arc<Lifecycle>,
    every: Option<Duration>,
    mut hangups: Option<Signal>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut rounds = every.map(|every| {
        let mut rounds = tokio::time::interval(every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        rounds
    });
    loop {
        let round = async {
            match &mut rounds {
                Some(rounds) => drop(rounds.tick().await),
                None => std::future::pending().await,
            }
        };
        let hangup = async {
            match &mut hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = is_true(&mut stopping) => return,
            _ = hangup => {
                tracing::info!("told to look at the policy bundles again");
                policies.reload(Cause::Asked).await;
            }
            () = round => policies.reload(Cause::Watch).await,
        }
    }
}

/// Waits for the word to stop; a sender that is gone has said it.
async fn is_true(stopping: &mut watch::Receiver<bool>) {
    let _sender_gone = stopping.wait_for(|stop| *stop).await.map(|_| ());
}

async fn told_to_stop() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "signals cannot be received; stop the process with SIGKILL");
            std::future::pending().await
        }
    }
}

impl Gateway {
    /// Finishes what is in flight and closes the stores.
    pub async fn close(self, within: Duration) {
        if tokio::time::timeout(within, self.app.engine().finish()).await.is_err() {
            tracing::warn!("stopping with work in flight; the next start takes it up");
        }
        self.fleet.close().await;
        self.store.close().await;
    }
}
