//! Nodes and authority: in this process, or in processes of their own.

use crate::authority::{EmbeddedAuthority, RemoteAuthority};
use crate::compose::{StartError, load_seed, open_fleet};
use crate::node_policy::StoredBundles;
use crate::settings::{RemoteNodes, Settings};
use gateway_domain::dsse::KeySet;
use gateway_domain::operation::Event;
use gateway_engine::ports::{DriveNodes, SignAdmission};
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
    client: ServiceClient,
    /// `None`: embedded nodes.
    nodes: Option<Vec<NodeAddress>>,
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
    authority: [u8; 32],
    policies: &Arc<Lifecycle>,
) -> Result<OpenFleet, StartError> {
    match services {
        Some(Services { client, nodes: Some(nodes) }) => {
            let bundles = Arc::new(StoredBundles(Arc::clone(policies)));
            Ok(OpenFleet::Remote(Arc::new(RemoteFleet::new(client, nodes.clone(), bundles))))
        }
        Some(Services { nodes: None, .. }) | None => {
            Ok(OpenFleet::Embedded(open_fleet(settings, authority, policies).await?))
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

/// The authority, and its public key.
pub(crate) fn open_authority(
    settings: &Settings,
    services: Option<&Services>,
    reads: &Arc<Store>,
) -> Result<(Arc<dyn SignAdmission>, [u8; 32]), StartError> {
    let (Some(remote), Some(services)) = (&settings.authority.remote, services) else {
        let seed = load_seed(settings, &settings.authority.key);
        let seed = seed.map_err(|error| StartError::new("authority", error))?;
        let authority = EmbeddedAuthority::new(&seed);
        let public_key = authority.public_key();
        return Ok((Arc::new(authority), public_key));
    };
    let client = services.client.clone();
    let public_key = *remote.public_key.as_bytes();
    let pinned = KeySet::new([public_key]).map_err(|error| StartError::new("authority", error))?;
    let authority = RemoteAuthority::new(client, remote.url.clone(), pinned, reads.clone());
    Ok((Arc::new(authority), public_key))
}

/// The public key of the authority.
///
/// # Errors
/// [`StartError`] when its key cannot be read.
pub(crate) fn authority_key(settings: &Settings) -> Result<[u8; 32], StartError> {
    if let Some(remote) = &settings.authority.remote {
        return Ok(*remote.public_key.as_bytes());
    }
    let seed = key_file::load(&settings.authority.key);
    Ok(EmbeddedAuthority::new(&*seed.map_err(|error| StartError::new("authority", error))?).public_key())
}
