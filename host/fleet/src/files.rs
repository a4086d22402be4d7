//! The nodes' database files: listed, and read or rewrapped without a fleet.
//!
//! [`identities`], [`check_file`] and [`missing_shares_in_file`] open the files read-only, so a gateway may be running.

use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::failpoint::failpoint;
use gateway_node::{
    Damage, Node, NodeConfig, NodeError, NodeFile, NodeSettings, Peers, Scope, read_identity, unreadable,
};
use gateway_seal::at_rest::Kek;
use gateway_seal::node_key::NodeIdentity;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration of a fleet.
#[derive(Clone)]
pub struct FleetConfig {
    /// The folder of the databases, `node-<index>.db` for each participant. Folder and databases are created when needed.
    pub folder: PathBuf,
    /// The paths of the nodes' [`NodeConfig::log_size_file`], but for a dot and the participant. `None` in tests.
    pub log_size_files: Option<PathBuf>,
    /// The settings of every node, so also one key-encryption key for all.
    pub nodes: NodeSettings,
}

impl FleetConfig {
    pub(crate) fn node(&self, participant: ParticipantIndex, peers: Arc<Peers>) -> NodeConfig {
        let database = database(&self.folder, participant);
        let log_size_file =
            self.log_size_files.as_ref().map(|start| start.with_added_extension(participant.to_string()));
        NodeConfig { participant, database, log_size_file, peers, settings: self.nodes.clone() }
    }
}

/// The path of a participant's database.
pub(crate) fn database(folder: &Path, participant: ParticipantIndex) -> PathBuf {
    folder.join(format!("node-{participant}.db"))
}

/// The participants that have a database in this folder. Empty if the folder cannot be read; opening a node reports the error.
#[must_use]
pub fn participants_with_database(folder: &Path) -> BTreeSet<ParticipantIndex> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let indices = names.filter_map(|name| {
        name.to_str()?.strip_prefix("node-")?.strip_suffix(".db")?.parse().ok().map(ParticipantIndex)
    });
    indices.collect()
}

/// The database of a node could not be read or rewrapped.
#[derive(Debug, thiserror::Error)]
#[error("participant {participant}")]
pub struct IdentityError {
    /// The participant of the node.
    pub participant: ParticipantIndex,
    /// The error of the node.
    pub source: NodeError,
}

/// The identity of each node that has a database in this folder, with which its receipts are verified. A node gets a database
/// when it is first called.
///
/// # Errors
/// [`IdentityError`] of the first node whose database cannot be read, or is sealed under another key.
pub async fn identities(
    folder: &Path,
    kek: &Arc<Kek>,
) -> Result<BTreeMap<ParticipantIndex, NodeIdentity>, IdentityError> {
    let mut identities = BTreeMap::new();
    for participant in participants_with_database(folder) {
        let read = read_identity(&database(folder, participant), participant, Arc::clone(kek)).await;
        let identity = read.map_err(|source| IdentityError { participant, source })?;
        identities.insert(participant, identity);
    }
    Ok(identities)
}

/// Checks a node's whole database. A database that cannot be opened or read is a finding too.
pub async fn check_file(folder: &Path, participant: ParticipantIndex, kek: &Arc<Kek>) -> Vec<Damage> {
    match open_file(folder, participant, kek).await {
        Ok(file) => {
            let found = file.check().await;
            file.close().await;
            found.unwrap_or_else(|error| vec![unreadable(&error)])
        }
        Err(error) => vec![unreadable(&error)],
    }
}

/// Opens a node's database read-only.
pub async fn open_file(
    folder: &Path,
    participant: ParticipantIndex,
    kek: &Arc<Kek>,
) -> Result<NodeFile, NodeError> {
    NodeFile::open(&database(folder, participant), participant, Arc::clone(kek)).await
}

/// The keys whose epoch is not the one that the node signs with. All keys if the node has no database or `kek` is `None`; none
/// if the database cannot be read, which [`check_file`] reports.
pub async fn missing_shares_in_file(
    folder: &Path,
    participant: ParticipantIndex,
    kek: Option<&Arc<Kek>>,
    keys: &[(KeyId, Epoch)],
) -> Vec<(KeyId, Damage)> {
    let path = database(folder, participant);
    let missing = match kek.filter(|_| path.exists()) {
        None => all_missing(keys).collect(),
        Some(kek) => match NodeFile::open(&path, participant, Arc::clone(kek)).await {
            Ok(file) => {
                let missing = file.missing_shares(keys).await;
                file.close().await;
                missing.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        },
    };
    let damage = |(key_id, what)| {
        let row = format!("key_id {key_id}");
        (key_id, Damage { table: "share", row, what, scope: Scope::Key(key_id) })
    };
    missing.into_iter().map(damage).collect()
}

/// The missing shares of a node without a database: all of them.
pub(crate) fn all_missing(keys: &[(KeyId, Epoch)]) -> impl Iterator<Item = (KeyId, String)> {
    keys.iter().map(|(key_id, _)| (*key_id, "the node has no database".to_owned()))
}

/// Seals the secrets of every database in the folder under another key-encryption key, one transaction for each database.
/// Returns the number of databases. A database that is already sealed under the new key is skipped, so an interrupted run can
/// be repeated.
///
/// # Errors
/// [`IdentityError`] of the first node whose database another process has open, or that neither key opens.
pub async fn rewrap(config: &FleetConfig, new: &Arc<Kek>) -> Result<usize, IdentityError> {
    let participants = participants_with_database(&config.folder);
    for participant in &participants {
        let failed = |source: NodeError| IdentityError { participant: *participant, source };
        match Node::open(config.node(*participant, Arc::new(Peers::default()))).await {
            Ok(node) => node.rewrap(Arc::clone(new)).await.map_err(failed)?,
            Err(error) if error.is_wrong_kek() => {
                let path = database(&config.folder, *participant);
                let under_new = read_identity(&path, *participant, Arc::clone(new)).await;
                under_new.map_err(|_| failed(error))?;
            }
            Err(error) => return Err(failed(error)),
        }
        failpoint("after-rewrap");
    }
    Ok(participants.len())
}

/// Readmits a node that stopped after its database was restored from an older copy. Returns the size of its log. The gateway must be
/// stopped: it locks the database.
///
/// # Errors
/// [`NodeError::Unavailable`] when the database cannot be opened, or the node has not stopped.
pub async fn readmit(
    config: &FleetConfig,
    participant: ParticipantIndex,
    size_at_least: u64,
) -> Result<u64, NodeError> {
    let node = Node::open(config.node(participant, Arc::new(Peers::default()))).await?;
    let readmitted = node.readmit(size_at_least).await;
    node.close().await;
    Ok(readmitted?.head.size)
}
