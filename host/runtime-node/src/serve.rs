//! Opens the node and serves it.

use crate::peers::PeersFile;
use crate::routes;
use crate::settings::Settings;
use gateway_domain::dsse::KeySet;
use gateway_domain::ids::Hex32;
use gateway_node::{Node, NodeConfig, NodeSettings, Peers};
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::Creates;
use gateway_service::approvers::Verifiers;
use gateway_service::signals::Signals;
use gateway_service::transport::{Server, Tls, until_stopped};
use gateway_service::{StartError, file_limit};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Interval between two steps of the background check of the database.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Open files besides connections: the database, its journal, and its readers.
const FILES_OF_NODE: u64 = 64;

/// An open node, and the rule that verifies its approvers' signatures.
pub struct NodeService {
    /// The node.
    pub node: Arc<Node>,
    verifiers: Option<Verifiers>,
}

/// Opens the node's database, which `init` created. Refuses a node whose pinned identity is not the one it has.
///
/// # Errors
/// [`StartError`], one line that names the part.
pub async fn open(settings: &Settings) -> Result<NodeService, StartError> {
    if settings.authority_keys.is_empty() {
        return Err(StartError::new("setting `authority_keys`", "must name at least one authority"));
    }
    if !settings.database.exists() {
        let why = format!("`{}` does not exist: run `runtime-node init`", settings.database.display());
        return Err(StartError::new("database", why));
    }
    let kek = kek(settings, Creates::Nothing).await?;
    let pinned = PeersFile::read(&settings.peers_file).map_err(|error| StartError::new("peers", error))?;
    let peers = Arc::new(pinned.peers().map_err(|error| StartError::new("peers", error))?);
    let config = node_config(settings, Arc::new(kek), Arc::clone(&peers))?;
    let rule = config.settings.signed_approvals.clone();
    let node = Node::open(config).await.map_err(|error| StartError::new("node", error))?;
    if peers.pinned(settings.participant).as_ref() != Some(node.identity()) {
        let why = format!(
            "`{}` pins another identity for participant {}, or none",
            settings.peers_file.display(),
            settings.participant
        );
        node.close().await;
        return Err(StartError::new("peers", why));
    }
    let verifiers = Verifiers::open(&settings.signed_approvals, vec![rule]);
    node.start_checks().await;
    Ok(NodeService { node: Arc::new(node), verifiers })
}

/// Loads the key-encryption key on a blocking thread.
pub(crate) async fn kek(settings: &Settings, creates: Creates) -> Result<Kek, StartError> {
    let source = settings.key.clone();
    let folder = settings.database.parent().unwrap_or(Path::new(".")).to_owned();
    let loading = tokio::task::spawn_blocking(move || source.load(&folder, creates)).await;
    let loaded = loading.map_err(|error| StartError::new("node key", error))?;
    loaded.map_err(|error| StartError::new("node key", error))
}

pub(crate) fn node_config(
    settings: &Settings,
    kek: Arc<Kek>,
    peers: Arc<Peers>,
) -> Result<NodeConfig, StartError> {
    let authorities = KeySet::new(settings.authority_keys.iter().map(Hex32::as_bytes).copied());
    Ok(NodeConfig {
        participant: settings.participant,
        database: settings.database.clone(),
        peers,
        settings: NodeSettings {
            kek,
            authorities: authorities.map_err(|error| StartError::new("setting `authority_keys`", error))?,
            required_approvals: settings.required_approvals,
            decision_ttl_max_ms: settings.decision_ttl_max_ms,
            signed_approvals: settings.signed_approvals.rule(settings.approval_age_max_ms),
            keys_without_approvals: settings.keys_without_approvals,
            clock: Arc::new(gateway_service::now),
        },
    })
}

/// Serves until SIGTERM or SIGINT, and then until the requests in progress are answered.
///
/// # Errors
/// [`StartError`], one line that names the part.
pub(crate) async fn serve(settings: &Settings) -> Result<(), StartError> {
    let signals = Signals::listen();
    let Some(files) = settings.tls.clone() else {
        return Err(StartError::new(
            "setting `tls_certificate`",
            "must be given: a node serves only over mutual TLS",
        ));
    };
    let n_connections = u64::try_from(settings.limits.connections_max).unwrap_or(u64::MAX);
    file_limit::raise(n_connections.saturating_mul(2).saturating_add(FILES_OF_NODE))?;
    let tls = Arc::new(Tls::open(files).map_err(|error| StartError::new("tls", error))?);
    let (listener, address) = bind(settings.bind).await?;
    let admin = match settings.admin_bind {
        Some(admin) => Some(bind(admin).await?.0),
        None => None,
    };
    let NodeService { node, verifiers } = open(settings).await?;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        signals.stop.received().await;
        let _receiver_gone = stop.send(true);
    });
    let checks = tokio::spawn(check(Arc::clone(&node), stopping.clone()));
    let files = tokio::spawn(watch_files(
        settings.watch,
        verifiers,
        Arc::clone(&tls),
        signals.files,
        stopping.clone(),
    ));
    let fingerprint = node.identity().fingerprint();
    tracing::info!(%address, participant = %settings.participant, fingerprint, "runtime-node listens");
    let router = routes::router(Arc::clone(&node), settings.requests_max);
    let server = Server::new("node", listener, router, settings.limits, Some(tls));
    let admin = admin.map(|listener| {
        Server::new("admin", listener, routes::admin(Arc::clone(&node)), settings.limits, None)
    });
    let serving = async {
        let admin = async {
            if let Some(admin) = admin {
                admin.run(stopping.clone()).await;
            }
        };
        tokio::join!(server.run(stopping.clone()), admin);
    };
    let mut stopped = stopping.clone();
    let too_late = async {
        until_stopped(&mut stopped).await;
        tokio::time::sleep(settings.shutdown_within).await;
    };
    tokio::select! {
        () = serving => {}
        () = too_late => {}
    }
    let _cut_short =
        tokio::time::timeout(settings.shutdown_within, async { tokio::join!(checks, files) }).await;
    node.close().await;
    tracing::info!("runtime-node stopped");
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| StartError::new(format!("address `{address}`"), error))?;
    let address = listener.local_addr().map_err(|error| StartError::new("address", error))?;
    Ok((listener, address))
}

/// Checks some rows of the database every second, and logs a change of the findings.
async fn check(node: Arc<Node>, mut stopping: watch::Receiver<bool>) {
    let mut steps = tokio::time::interval(CHECK_EVERY);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reported = Vec::new();
    loop {
        tokio::select! {
            _ = steps.tick() => {}
            () = until_stopped(&mut stopping) => return,
        }
        node.check_next_rows().await;
        let found = node.status().await.findings;
        if found != reported {
            if found.is_empty() {
                tracing::info!("the database is sound again");
            } else {
                tracing::error!(found = found.join("; "), "the database is damaged");
            }
            reported = found;
        }
    }
}

/// Reads a changed registry of approvers at intervals, and on SIGHUP the registry and the certificates.
async fn watch_files(
    every: Duration,
    mut verifiers: Option<Verifiers>,
    tls: Arc<Tls>,
    mut hangups: Option<tokio::signal::unix::Signal>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let hangup = async {
            match &mut hangups {
                Some(hangups) => drop(hangups.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = until_stopped(&mut stopping) => return,
            _ = rounds.tick() => {
                if let Some(verifiers) = &mut verifiers {
                    verifiers.reload_if_changed();
                }
            }
            () = hangup => {
                if let Some(verifiers) = &mut verifiers {
                    verifiers.reload();
                }
                match tls.reload() {
                    Ok(()) => tracing::info!("reloaded certificates"),
                    Err(error) => tracing::error!(
                        error = gateway_domain::error_chain(&error),
                        "could not reload certificates; the current ones stay in use"
                    ),
                }
            }
        }
    }
}
