//! Listening, and stopping without losing what is in flight.

use crate::approvers::Verifiers;
use crate::compose::{self, Gateway, StartError};
use crate::nodes::{self, Told};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::transport::{Server, Tls};
use gateway_engine::Engine;
use gateway_policy::Lifecycle;
use gateway_policy::lifecycle::Cause;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Serves until told to stop, and then until what is in flight is finished.
///
/// The order of opening is that of harmlessness: policy and certificates are read, the ports taken, and only then is anything
/// written.
///
/// # Errors
/// [`StartError`] when something could not be had; nothing is left half-started.
pub async fn serve(settings: &Settings) -> Result<(), StartError> {
    let signals = Signals::listen();
    let policy = compose::open_policy(settings)?;
    let tls = settings.transport.tls.clone().map(Tls::open).transpose();
    let tls = tls.map_err(|error| StartError::new("tls", error))?.map(Arc::new);
    let (listener, address) = bind(settings.bind).await?;
    let admin = match settings.transport.admin_bind {
        Some(admin) => Some(bind(admin).await?),
        None => None,
    };
    let mut gateway = compose::open(settings, policy).await?;
    let engine = gateway.app.engine().clone();
    let keys = engine.check_every_holder().await;
    keys.map_err(|error| StartError::new("nodes", error))?;
    let mut told = Told::default();
    told.report(&engine).await;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        signals.stop.told().await;
        let _nobody_listens = stop.send(true);
    });
    let reconciler =
        tokio::spawn(reconcile(gateway.app.engine().clone(), settings.reconcile_every, stopping.clone()));
    let watcher = tokio::spawn(watch_policies(
        gateway.policies.clone(),
        settings.policy_watch,
        signals.policies,
        stopping.clone(),
    ));
    let nodes = tokio::spawn(nodes::watch(engine, told, stopping.clone()));
    let files =
        tokio::spawn(watch_files(tls.clone(), gateway.verifiers.take(), signals.files, stopping.clone()));
    let log_key = gateway.app.engine().log_key();
    let is_tls = tls.is_some();
    let limits = settings.transport.limits;
    let admin_address = admin.as_ref().map(|(_, address)| tracing::field::display(*address));
    tracing::info!(
        %address,
        admin_address,
        tls = is_tls,
        profile = ?settings.profile,
        %log_key,
        "operation-gateway listens"
    );
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
    within(settings.shutdown_within, stopping.clone(), serving).await;
    let tasks = async { tokio::join!(reconciler, watcher, files, nodes) };
    let _cut_short = tokio::time::timeout(settings.shutdown_within, tasks).await;
    gateway.close(settings.shutdown_within).await;
    tracing::info!("operation-gateway stopped");
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| StartError::new(format!("address `{address}`"), error))?;
    let address = listener.local_addr().map_err(|error| StartError::new("address", error))?;
    Ok((listener, address))
}

/// The servers' end, or their deadline once they are stopping: a client that never hangs up does not keep them.
async fn within(deadline: Duration, mut stopping: watch::Receiver<bool>, serving: impl Future<Output = ()>) {
    let too_late = async {
        is_true(&mut stopping).await;
        tokio::time::sleep(deadline).await;
    };
    tokio::select! {
        () = serving => {}
        () = too_late => {}
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

/// Reads certificates and the registry of approvers again on SIGHUP. What can not be used leaves what is in use.
async fn watch_files(
    tls: Option<Arc<Tls>>,
    verifiers: Option<Verifiers>,
    hangups: Option<Signal>,
    mut stopping: watch::Receiver<bool>,
) {
    let Some(mut hangups) = hangups else { return };
    loop {
        tokio::select! {
            _ = is_true(&mut stopping) => return,
            _ = hangups.recv() => {}
        }
        if let Some(tls) = &tls {
            told("certificates", tls.reload().map_err(Into::into));
        }
        if let Some(verifiers) = &verifiers {
            told("approvers", verifiers.reload());
        }
    }
}

fn told(what: &str, reading: Result<(), Box<dyn Error + Send + Sync>>) {
    match reading {
        Ok(()) => tracing::info!("{what} were read again"),
        Err(error) => tracing::error!(
            error = gateway_domain::chain(error.as_ref()),
            "{what} could not be read again; those in use stay"
        ),
    }
}

/// Waits for the word to stop; a sender that is gone has said it.
async fn is_true(stopping: &mut watch::Receiver<bool>) {
    let _sender_gone = stopping.wait_for(|stop| *stop).await.map(|_| ());
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
