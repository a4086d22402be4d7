//! Nodes and authority: in this process, or in processes of their own.

use crate::authority::PolicyAuthorities;
use crate::compose::{self, StartError, open_fleet};
use crate::node_policy::StoredBundles;
use crate::settings::{RemoteNodes, Settings};
use gateway_authority::Authority;
use gateway_domain::approval::SigningRule;
use gateway_domain::operation::Event;
use gateway_engine::ports::{DriveNodes, SignAdmission};
use gateway_policy::CompiledBundles;
use gateway_policy_host::Lifecycle;
use gateway_runtime::{EmbeddedFleet, NodeAddress, PeersFile, RemoteFleet};
use gateway_seal::key_file;
use gateway_seal::node_key::NodeIdentity;
use gateway_service::client::ServiceClient;
use gateway_store::Store;
use std::sync::Arc;

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
        return compose::open_embedded_authority(settings, store, policies, compiled);
    };
    let members =
        settings.authority.remote.iter().map(|remote| (remote.url.clone(), *remote.public_key.as_bytes()));
    let (threshold, bundles) = (settings.authority.threshold, StoredBundles(Arc::clone(policies)));
    let port = PolicyAuthorities::remote(&services.client, members, threshold, store.clone(), bundles);
    let public_keys = settings.authority.remote.iter().map(|remote| *remote.public_key.as_bytes()).collect();
    Ok(OpenAuthority { port: Arc::new(port), public_keys, signed_approvals: None })
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
