//! The pinned identities of all nodes: messages are verified with them and sealed to them. For nodes in processes of their own and
//! the gateway that calls them they are in a file, which only the operator's commands write.

use crate::error::{NodeError, PeerConflict};
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::durable;
use gateway_seal::node_key::{Identities, NodeIdentity};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;

/// The pinned identities. An operator pins them, or the fleet if it opens all nodes in one process; they must not come from a
/// relay.
#[derive(Debug, Default)]
pub struct Peers(RwLock<BTreeMap<u16, NodeIdentity>>);

impl Peers {
    /// Pins a node's identity. Pinning the same identity again succeeds.
    ///
    /// # Errors
    /// [`PeerConflict`] when another identity is pinned for the participant; it stays.
    pub fn pin(&self, identity: &NodeIdentity) -> Result<(), PeerConflict> {
        let mut pinned = self.0.write();
        let index = identity.index();
        if pinned.get(&index).is_some_and(|known| known != identity) {
            return Err(PeerConflict { index });
        }
        pinned.insert(index, identity.clone());
        Ok(())
    }

    /// The identity that is pinned for this participant.
    #[must_use]
    pub fn pinned(&self, participant: ParticipantIndex) -> Option<NodeIdentity> {
        self.0.read().get(&participant.0).cloned()
    }

    /// All pinned identities.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when `me`, this node's own, is not among them, or two participants have the same key.
    pub(crate) fn identities(&self, me: &NodeIdentity) -> Result<Identities, NodeError> {
        let pinned = self.0.read();
        if pinned.get(&me.index()) != Some(me) {
            return Err(NodeError::unavailable("the identity pinned for the node is not the one it has"));
        }
        Identities::new(pinned.values().cloned())
            .map_err(|_| NodeError::unavailable("two participants are pinned with the same key"))
    }
}

/// Why the file cannot be used, in one line.
type Fault = Box<dyn Error + Send + Sync>;

/// Largest file, bytes: the identities of 64 nodes take 16 KiB.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// The file of the identities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeersFile {
    /// The identities.
    pub nodes: Vec<NodeIdentity>,
}

impl PeersFile {
    /// Reads the file.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let failed = |what: &str| Fault::from(format!("file of identities `{}`: {what}", path.display()));
        let metadata = std::fs::metadata(path).map_err(|error| failed(&error.kind().to_string()))?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return Err(failed("is not a file of at most 256 KiB"));
        }
        let text = std::fs::read(path).map_err(|error| failed(&error.kind().to_string()))?;
        serde_json::from_slice(&text).map_err(|error| failed(&error.to_string()))
    }

    /// Adds identities, and writes the file whole, so that a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// One line; nothing changes when another identity is pinned for a node.
    pub fn pin(path: &Path, identities: Vec<NodeIdentity>) -> Result<Self, Fault> {
        let known = if path.exists() { Self::read(path)?.nodes } else { Vec::new() };
        let mut nodes: BTreeMap<u16, NodeIdentity> =
            known.into_iter().map(|one| (one.index(), one)).collect();
        for identity in identities {
            let index = identity.index();
            match nodes.get(&index) {
                Some(pinned) if *pinned != identity => {
                    let (pinned, new) = (pinned.fingerprint(), identity.fingerprint());
                    return Err(format!(
                        "participant {index} is pinned with the fingerprint {pinned}, not {new}: remove it from `{}` if it was replaced",
                        path.display()
                    )
                    .into());
                }
                Some(_) => {}
                None => _ = nodes.insert(index, identity),
            }
        }
        let file = Self { nodes: nodes.into_values().collect() };
        file.peers()?;
        let mut next = path.as_os_str().to_owned();
        next.push(".next");
        let mut written = std::fs::File::create(&next)?;
        written.write_all(serde_json::to_string_pretty(&file)?.as_bytes())?;
        written.sync_all()?;
        durable::rename(Path::new(&next), path)?;
        Ok(file)
    }

    /// The identities, as the node uses them.
    ///
    /// # Errors
    /// One line when a participant is named twice, or two have the same key.
    pub fn peers(&self) -> Result<Peers, Fault> {
        Identities::new(self.nodes.iter().cloned())?;
        let peers = Peers::default();
        for identity in &self.nodes {
            peers.pin(identity)?;
        }
        Ok(peers)
    }
}
