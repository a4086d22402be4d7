//! Nodes and authority: in this process, or in processes of their own.

use crate::approvers;
use crate::authority::{PolicyAuthorities, StoredBundles};
use crate::settings::{Profile, RemoteNodes, Settings};
use gateway_domain::admission::Authorities;
use gateway_domain::approval::SigningRule;
use gateway_domain::operation::Event;
use gateway_domain::policy::facts;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::{DriveNodes, SignAdmission};
use gateway_fleet::{
    EmbeddedFleet, FleetConfig, NodeAddress, NodeSettings, PeersFile, RemoteFleet, identities,
    participants_with_database,
};
use gateway_policy::{CompiledBundles, Trust, TrustFile};
use gateway_policy_host::Lifecycle;
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::Creates;
use gateway_seal::key_file::{self, KeyFileError};
use gateway_seal::node_key::NodeIdentity;
use gateway_service::StartError;
use gateway_service::client::ServiceClient;
use gateway_store::Store;
use policy_authority::{Authority, Policies as AuthorityPolicies, Record, Verifier};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The nodes, embedded or in processes of their own.
#[derive(Clone)]
pub enum OpenFleet {
    /// In this process. [`crate::compose::Gateway::close`] closes them.
    Embedded(Arc<EmbeddedFleet>),
    /// In processes of their own.
    Remote(Arc<RemoteFleet>),
}

impl OpenFleet {
    /// Notes the receipts in an operation's events, which the nodes are shown at their next calls.
    pub(crate) fn note_receipts(&self, events: &[Event]) {
        match self {
            Self::Embedded(fleet) => fleet.note_receipts(events),
            Self::Remote(fleet) => fleet.note_receipts(events),
        }
    }

    /// The nodes as the engine sees them.
    #[must_use]
    pub fn port(&self) -> Arc<dyn DriveNodes> {
        match self {
            Self::Embedded(fleet) => fleet.clone(),
            Self::Remote(fleet) => fleet.clone(),
        }
    }
}

/// The processes that the settings name, to which no connection is made yet.
pub(crate) struct Services {
    pub(crate) client: ServiceClient,
    /// `None`: embedded nodes.
    pub(crate) nodes: Option<Vec<NodeAddress>>,
}

/// Reads the files of the nodes and the authority in processes of their own; `None` if there are none.
pub(crate) fn open_services(settings: &Settings) -> Result<Option<Services>, StartError> {
    let Some(files) = &settings.services else { return Ok(None) };
    let client = ServiceClient::open(files).map_err(|error| StartError::new("service_tls", error))?;
    let addresses = |remote: &RemoteNodes| -> Result<Vec<_>, StartError> {
        let addresses = remote.urls.iter().cloned().zip(pinned_identities(remote)?);
        Ok(addresses.map(|(url, identity)| NodeAddress { url, identity }).collect())
    };
    let nodes = settings.nodes.remote.as_ref().map(addresses).transpose()?;
    Ok(Some(Services { client, nodes }))
}

/// The nodes that the settings name: all of them, or the gateway does not start.
pub(crate) async fn open_nodes(
    settings: &Settings,
    services: Option<&Services>,
    authorities: &[[u8; 32]],
    policies: &Arc<Lifecycle>,
    compiled: Arc<CompiledBundles>,
) -> Result<OpenFleet, StartError> {
    match services {
        Some(Services { client, nodes: Some(nodes) }) => {
            let bundles = Arc::new(StoredBundles(Arc::clone(policies)));
            Ok(OpenFleet::Remote(Arc::new(RemoteFleet::new(client, nodes.clone(), bundles))))
        }
        Some(Services { nodes: None, .. }) | None => {
            Ok(OpenFleet::Embedded(open_fleet(settings, authorities, policies, compiled).await?))
        }
    }
}

/// The identities of the nodes in processes of their own, by participant: one for each URL, and no other.
pub(crate) fn pinned_identities(remote: &RemoteNodes) -> Result<Vec<NodeIdentity>, StartError> {
    let failed = |error| StartError::new("runtime node pins", error);
    let file = PeersFile::read(&remote.pins).map_err(failed)?;
    file.peers().map_err(failed)?;
    let n_urls = remote.urls.len();
    if !file.nodes.iter().map(|identity| usize::from(identity.index())).eq(0..n_urls) {
        let pinned =
            file.nodes.iter().map(|identity| identity.index().to_string()).collect::<Vec<_>>().join(", ");
        let why =
            format!("`runtime_nodes` names participants 0 to {}, and the file pins {pinned}", n_urls - 1);
        return Err(StartError::new("runtime node pins", why));
    }
    Ok(file.nodes)
}

/// The authorities of a deployment.
pub struct OpenAuthority {
    /// As the engine sees them.
    pub port: Arc<dyn SignAdmission>,
    /// Their public keys.
    pub public_keys: Vec<[u8; 32]>,
    /// The rule for approvers' signatures of an embedded authority, which follows the registry.
    pub(crate) signed_approvals: Option<SigningRule>,
}

/// The authorities that the settings name, or the embedded one.
pub(crate) fn open_authority(
    settings: &Settings,
    services: Option<&Services>,
    store: &Arc<Store>,
    policies: &Arc<Lifecycle>,
    compiled: Arc<CompiledBundles>,
) -> Result<OpenAuthority, StartError> {
    let Some(services) = services.filter(|_| !settings.authority.remote.is_empty()) else {
        return open_embedded_authority(settings, store, policies, compiled);
    };
    let members =
        settings.authority.remote.iter().map(|remote| (remote.url.clone(), *remote.public_key.as_bytes()));
    let (threshold, bundles) = (settings.authority.threshold, StoredBundles(Arc::clone(policies)));
    let public_keys: Vec<_> =
        settings.authority.remote.iter().map(|remote| *remote.public_key.as_bytes()).collect();
    let pinned = pinned_authorities(settings, &public_keys)?;
    let port =
        PolicyAuthorities::remote(&services.client, members, threshold, pinned, store.clone(), bundles);
    Ok(OpenAuthority { port: Arc::new(port), public_keys, signed_approvals: None })
}

/// Opens an embedded authority. It checks what an authority in a process of its own does, by the deployment's rules.
///
/// # Errors
/// [`StartError`] when its key cannot be read.
pub fn open_embedded_authority(
    settings: &Settings,
    store: &Arc<Store>,
    policies: &Arc<Lifecycle>,
    compiled: Arc<CompiledBundles>,
) -> Result<OpenAuthority, StartError> {
    let seed =
        load_seed(settings, &settings.authority.key).map_err(|error| StartError::new("authority", error))?;
    let authority = Authority::new(&seed);
    let trust = policy_trust(settings);
    trust_file(settings, trust.clone());
    let rule = approvers::gateway_rule(settings);
    let verifier = Verifier {
        signed_approvals: rule.clone(),
        rules: deployment_rules(settings),
        keys_without_approvals: settings.operations.auto_provision_keys,
        decision_ttl_max_ms: settings.operations.admission_ttl_ms,
        policies: AuthorityPolicies::new(trust, compiled),
        record: Record::in_memory(),
        authorities: pinned_authorities(settings, &[authority.public_key()])?,
    };
    let public_keys = vec![authority.public_key()];
    let bundles = StoredBundles(Arc::clone(policies));
    let port = PolicyAuthorities::embedded(authority, verifier, store.clone(), bundles);
    Ok(OpenAuthority { port: Arc::new(port), public_keys, signed_approvals: Some(rule) })
}

/// Opens embedded nodes. Each pins the authority and the approvers, checks the deployment's rules for approvals itself, and evaluates the
/// policy itself, with bundles that `policies` has.
///
/// # Errors
/// [`StartError`] when the authority's key is invalid, or the nodes cannot be decrypted.
pub async fn open_fleet(
    settings: &Settings,
    authorities: &[[u8; 32]],
    policies: &Arc<Lifecycle>,
    compiled: Arc<CompiledBundles>,
) -> Result<Arc<EmbeddedFleet>, StartError> {
    let kek = Arc::new(open_kek(settings).await?);
    let mut config = fleet_config(settings, authorities, kek)?;
    config.nodes.compiled_bundles = compiled;
    trust_file(settings, config.nodes.policy_trust.clone());
    let fleet = EmbeddedFleet::new(config, Arc::new(StoredBundles(Arc::clone(policies))));
    fleet.open_existing().await.map_err(|error| StartError::new("nodes", error))?;
    Ok(Arc::new(fleet))
}

/// The trust in bundles of what this process embeds, without roots until [`trust_file`] has read them.
fn policy_trust(settings: &Settings) -> Trust {
    Trust::new(settings.general.profile == Profile::Development)
}

/// The trust roots, read into `trust`.
pub(crate) fn trust_file(settings: &Settings, trust: Trust) -> TrustFile {
    TrustFile::open(settings.policy.trust_roots.clone(), settings.policy.pins.clone(), trust)
}

/// Loads the key that encrypts the nodes' secrets, on a blocking thread. Creates a key file only in development and while there
/// are no databases: a new key could not decrypt them.
///
/// # Errors
/// [`StartError`], which names the file and never its content.
pub(crate) async fn open_kek(settings: &Settings) -> Result<Kek, StartError> {
    let (source, folder) = (settings.nodes.key.clone(), settings.nodes.directory.clone());
    let creates = match (participants_with_database(&folder).is_empty(), settings.general.profile) {
        (false, _) => Creates::Nothing,
        (true, Profile::Production) => Creates::Stretching,
        (true, Profile::Development) => Creates::Key,
    };
    let opening = tokio::task::spawn_blocking(move || source.load(&folder, creates)).await;
    let opened = opening.map_err(|error| StartError::new("node key", error))?;
    opened.map_err(|error| StartError::new("node key", error))
}

/// The configuration of the nodes. Decisions by earlier keys of the authority stay valid until they expire.
///
/// # Errors
/// [`StartError`] when a key of the authority is invalid.
pub fn fleet_config(
    settings: &Settings,
    authorities: &[[u8; 32]],
    kek: Arc<Kek>,
) -> Result<FleetConfig, StartError> {
    let nodes = NodeSettings {
        kek,
        authorities: pinned_authorities(settings, authorities)?,
        rules: deployment_rules(settings),
        approver_roles: BTreeMap::new(),
        policy_trust: policy_trust(settings),
        compiled_bundles: Arc::default(),
        decision_ttl_max_ms: settings.operations.admission_ttl_ms,
        signed_approvals: approvers::node_rule(settings),
        keys_without_approvals: settings.operations.auto_provision_keys,
        clock: Arc::new(gateway_service::now),
    };
    let log_size_files = Some(settings.nodes.directory.with_added_extension("log-size"));
    Ok(FleetConfig { folder: settings.nodes.directory.clone(), log_size_files, nodes })
}

/// The Ed25519 public keys that verify the nodes' receipts, by participant, for offline verifiers. Reads the nodes' databases,
/// also while a gateway serves, and writes nothing. Participants without a database, which never took part in an operation, are
/// left out.
///
/// # Errors
/// [`StartError`] when the key that encrypts the nodes' secrets cannot be loaded, or a database cannot be read with it.
pub async fn node_identities(
    settings: &Settings,
) -> Result<BTreeMap<ParticipantIndex, [u8; 32]>, StartError> {
    if let Some(remote) = &settings.nodes.remote {
        let identities = pinned_identities(remote)?.into_iter();
        let key = |identity: NodeIdentity| (ParticipantIndex(identity.index()), identity.signing_key());
        return Ok(identities.map(key).collect());
    }
    let folder = &settings.nodes.directory;
    if participants_with_database(folder).is_empty() {
        return Ok(BTreeMap::new());
    }
    let kek = Arc::new(open_kek(settings).await?);
    let nodes = identities(folder, &kek).await.map_err(|error| StartError::new("nodes", error))?;
    Ok(nodes.into_iter().map(|(participant, node)| (participant, node.signing_key())).collect())
}

pub(crate) fn load_seed(settings: &Settings, path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    match settings.general.profile {
        Profile::Development => key_file::load_or_create(path),
        Profile::Production => key_file::load(path),
    }
}

/// The rules that policies read as facts.
pub(crate) fn deployment_rules(settings: &Settings) -> facts::Rules {
    facts::Rules {
        permitted_recipients: settings.operations.permitted_recipients.clone(),
        required_approvals: settings.approvals.required,
        separation_of_duties: settings.approvals.separation_of_duties,
    }
}

/// These authorities and the earlier keys, as a verifier pins them.
fn pinned_authorities(settings: &Settings, authorities: &[[u8; 32]]) -> Result<Authorities, StartError> {
    let previous = settings.authority.keys_previous.iter().map(|key| *key.as_bytes());
    let pinned = Authorities::new(authorities.iter().copied().chain(previous), settings.authority.threshold);
    pinned.map_err(|error| StartError::new("authority", error))
}

/// The public keys of the authorities.
///
/// # Errors
/// [`StartError`] when the embedded authority's key cannot be read.
pub(crate) fn authority_keys(settings: &Settings) -> Result<Vec<[u8; 32]>, StartError> {
    let remote = &settings.authority.remote;
    if !remote.is_empty() {
        return Ok(remote.iter().map(|remote| *remote.public_key.as_bytes()).collect());
    }
    let seed = key_file::load(&settings.authority.key);
    Ok(vec![Authority::new(&*seed.map_err(|error| StartError::new("authority", error))?).public_key()])
}
