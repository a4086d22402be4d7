//! Opens the node and serves it.

use crate::routes;
use crate::settings::Settings;
use gateway_domain::admission::Authorities;
use gateway_domain::ids::Hex32;
use gateway_node::{Node, NodeConfig, NodeSettings, Peers, PeersFile};
use gateway_policy::{Pins, Trust, TrustFile};
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::Creates;
use gateway_service::StartError;
use gateway_service::approvers::Verifiers;
use gateway_service::process::{Backend, Followed};
use gateway_service::rounds::Rounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Interval between two steps of the background check of the database.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// An open node, with the files that it follows: the registry of approvers, and the trust roots of policies.
pub struct NodeService {
    /// The node.
    pub node: Arc<Node>,
    verifiers: Option<Verifiers>,
    trust_file: TrustFile,
}

/// Opens the node's database, which `init` created. Refuses a node whose pinned identity is not the one it has.
pub async fn open(settings: &Settings) -> Result<NodeService, StartError> {
    if settings.trust.authority_keys.is_empty() {
        return Err(StartError::new("setting `authority_keys`", "must name at least one authority"));
    }
    if !settings.node.database.exists() {
        let why = format!("`{}` does not exist: run `runtime-node init`", settings.node.database.display());
        return Err(StartError::new("database", why));
    }
    let kek = kek(settings, Creates::Nothing).await?;
    let pinned =
        PeersFile::read(&settings.node.peers_file).map_err(|error| StartError::new("peers", error))?;
    let peers = Arc::new(pinned.peers().map_err(|error| StartError::new("peers", error))?);
    let config = node_config(settings, Arc::new(kek), Arc::clone(&peers))?;
    let rule = config.settings.signed_approvals.clone();
    let pins = Pins::parse(&settings.rules.pins);
    let pins = pins.map_err(|error| StartError::new("setting `policy_pins`", error))?;
    let trust = config.settings.policy_trust.clone();
    let trust_file = TrustFile::open(settings.rules.roots()?.to_owned(), pins, trust);
    let node = Node::open(config).await.map_err(|error| StartError::new("node", error))?;
    if peers.pinned(settings.node.participant).as_ref() != Some(node.identity()) {
        let why = format!(
            "`{}` pins another identity for participant {}, or none",
            settings.node.peers_file.display(),
            settings.node.participant
        );
        node.close().await;
        return Err(StartError::new("peers", why));
    }
    let verifiers = Verifiers::open(&settings.rules.signed_approvals, vec![rule]);
    node.start_checks().await;
    Ok(NodeService { node: Arc::new(node), verifiers, trust_file })
}

/// Loads the key-encryption key on a blocking thread.
pub(crate) async fn kek(settings: &Settings, creates: Creates) -> Result<Kek, StartError> {
    let source = settings.node.key.clone();
    let folder = settings.node.database.parent().unwrap_or(Path::new(".")).to_owned();
    let loading = tokio::task::spawn_blocking(move || source.load(&folder, creates)).await;
    let loaded = loading.map_err(|error| StartError::new("node key", error))?;
    loaded.map_err(|error| StartError::new("node key", error))
}

pub(crate) fn node_config(
    settings: &Settings,
    kek: Arc<Kek>,
    peers: Arc<Peers>,
) -> Result<NodeConfig, StartError> {
    let keys = settings.trust.authority_keys.iter().map(Hex32::as_bytes).copied();
    let rules = &settings.rules;
    let authorities = Authorities::new(keys, settings.trust.authority_threshold);
    Ok(NodeConfig {
        participant: settings.node.participant,
        database: settings.node.database.clone(),
        log_size_file: Some(settings.log_size_file.clone()),
        peers,
        settings: NodeSettings {
            kek,
            authorities: authorities.map_err(|error| StartError::new("setting `authority_keys`", error))?,
            rules: rules.facts(),
            approver_roles: settings.trust.approver_roles.clone(),
            policy_trust: Trust::new(rules.development_bundles),
            compiled_bundles: Arc::default(),
            decision_ttl_max_ms: rules.decision_ttl_max_ms,
            signed_approvals: rules.signed_approvals.rule(settings.trust.approval_age_max_ms),
            keys_without_approvals: rules.keys_without_approvals,
            clock: Arc::new(gateway_service::now),
        },
    })
}

/// Serves until SIGTERM or SIGINT, and then until the requests in progress are answered.
pub(crate) async fn serve(settings: &Settings) -> Result<(), StartError> {
    let backend = Backend::open("node", &settings.process).await?;
    let Backend { listeners, tls, rounds, stopping, quotas } = backend;
    let NodeService { node, verifiers, mut trust_file } = open(settings).await?;
    let checks = tokio::spawn(check(Arc::clone(&node), stopping));
    let followed = Followed { tls: Some(tls), verifiers };
    let watching = followed.follow(rounds, move || trust_file.reload_if_changed());
    let fingerprint = node.identity().fingerprint();
    let participant = settings.node.participant;
    tracing::info!(address = listeners.address().map(tracing::field::display), %participant, fingerprint, "runtime-node listens");
    let router = routes::router(Arc::clone(&node), quotas);
    let (limits, within) = (settings.process.limits, settings.process.shutdown_within);
    listeners.serve(router, routes::admin(Arc::clone(&node)), limits, within).await;
    let tasks = async { tokio::join!(checks, watching) };
    let _cut_short = tokio::time::timeout(within, tasks).await;
    node.close().await;
    tracing::info!("runtime-node stopped");
    Ok(())
}

/// Checks some rows of the database every second, and logs a change of the findings.
async fn check(node: Arc<Node>, stopping: watch::Receiver<bool>) {
    let mut rounds = Rounds::every(CHECK_EVERY, stopping);
    let mut reported = Vec::new();
    while rounds.next().await.is_some() {
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
