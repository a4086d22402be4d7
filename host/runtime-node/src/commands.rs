//! The operator's commands: key ceremonies and the check of the database.

use crate::serve::{kek, node_config};
use crate::settings::Settings;

use gateway_node::{Node, NodeFile, Peers, PeersFile, read_identity};
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::{Creates, KekSource, replacement_path};
use gateway_seal::node_key::NodeIdentity;
use gateway_seal::{durable, key_file};
use gateway_service::output::{self, EXIT_FAILED, Lines};
use gateway_service::process::Fault;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Creates the key-encryption key and the database if they are missing, and prints the identity.
pub(crate) async fn init(settings: &Settings) -> Result<ExitCode, Fault> {
    let creates = if settings.node.database.exists() { Creates::Nothing } else { Creates::Key };
    let kek = kek(settings, creates).await?;
    let node = Node::open(node_config(settings, Arc::new(kek), Arc::new(Peers::default()))?).await?;
    let identity = node.identity().clone();
    node.close().await;
    print(&identity)
}

/// Prints the identity; the node may be running.
pub(crate) async fn identity(settings: &Settings) -> Result<ExitCode, Fault> {
    let kek = kek(settings, Creates::Nothing).await?;
    print(&read_identity(&settings.node.database, settings.node.participant, Arc::new(kek)).await?)
}

fn print(identity: &NodeIdentity) -> Result<ExitCode, Fault> {
    let mut lines = Lines::new();
    lines.add_json_pretty(identity)?;
    output::print(&lines)?;
    output::tell_line(format_args!("fingerprint: {}", identity.fingerprint()));
    Ok(ExitCode::SUCCESS)
}

/// Adds identities to the file of pinned ones, all or none, and prints the fingerprint of each.
///
/// `fingerprints`: those that the nodes' operators read out; if there are any, each identity must have one of them.
pub(crate) fn pin(
    settings: &Settings,
    files: &[PathBuf],
    fingerprints: &[String],
) -> Result<ExitCode, Fault> {
    let read = |path: &PathBuf| -> Result<NodeIdentity, Fault> {
        let failed = |what: String| Fault::from(format!("identity `{}`: {what}", path.display()));
        let text = std::fs::read(path).map_err(|error| failed(error.kind().to_string()))?;
        serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))
    };
    let identities = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    for (path, identity) in files.iter().zip(&identities) {
        let fingerprint = identity.fingerprint();
        if !fingerprints.is_empty() && !fingerprints.contains(&fingerprint) {
            let path = path.display();
            return Err(format!(
                "identity `{path}` has the fingerprint {fingerprint}, which was not given: nothing was pinned"
            )
            .into());
        }
    }
    let pinned = PeersFile::pin(&settings.node.peers_file, identities)?;
    let mut lines = Lines::new();
    for identity in &pinned.nodes {
        lines.add(format_args!("participant {}: {}", identity.index(), identity.fingerprint()));
    }
    output::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Checks the whole database and prints the findings.
pub(crate) async fn check(settings: &Settings) -> Result<ExitCode, Fault> {
    let kek = Arc::new(kek(settings, Creates::Nothing).await?);
    let file = NodeFile::open(&settings.node.database, settings.node.participant, kek).await?;
    let found = file.check().await;
    file.close().await;
    let found = found?;
    let mut lines = Lines::new();
    found.iter().for_each(|damage| lines.add(damage));
    output::print(&lines)?;
    if found.is_empty() {
        output::print_line("ok")?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(EXIT_FAILED))
}

/// Prints the log as lines of JSON: a header, the entries, and the signed head.
pub(crate) async fn log(settings: &Settings) -> Result<ExitCode, Fault> {
    let kek = Arc::new(kek(settings, Creates::Nothing).await?);
    let file = NodeFile::open(&settings.node.database, settings.node.participant, kek).await?;
    file.write_log(output::print_json, gateway_service::now()).await?;
    file.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Lets a node continue that was restored from an older copy of its database.
pub(crate) async fn readmit(settings: &Settings, size_at_least: u64) -> Result<ExitCode, Fault> {
    let kek = Arc::new(kek(settings, Creates::Nothing).await?);
    if !settings.node.database.exists() {
        return Err(format!("`{}` does not exist", settings.node.database.display()).into());
    }
    let node = Node::open(node_config(settings, kek, Arc::new(Peers::default()))?).await?;
    let readmitted = node.readmit(size_at_least).await;
    node.close().await;
    let size = readmitted?.head.size;
    output::print_line(format_args!("the node was readmitted; its log has {size} entries"))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces the key-encryption key. The database is rewritten in one transaction before the new file takes the place of the old one.
pub(crate) async fn rewrap(settings: &Settings) -> Result<ExitCode, Fault> {
    let KekSource::File(path) = &settings.node.key else {
        return Err("the key is derived from a passphrase, so there is no key file to replace".into());
    };
    let next = replacement_path(path);
    let (old, new) = (Kek::from_file(path)?, Kek::new(key_file::load_or_create(&next)?));
    let ids = (old.id(), new.id());
    let new = Arc::new(new);
    match Node::open(node_config(settings, Arc::new(old), Arc::new(Peers::default()))?).await {
        Ok(node) => node.rewrap(Arc::clone(&new)).await?,
        // An interrupted run has rewritten it already.
        Err(error) if error.is_wrong_kek() => {
            read_identity(&settings.node.database, settings.node.participant, Arc::clone(&new))
                .await
                .map_err(|_| error)?;
        }
        Err(error) => return Err(error.into()),
    }
    durable::rename(&next, path)?;
    output::print_line(format_args!("key {} was replaced by key {}", ids.0, ids.1))?;
    Ok(ExitCode::SUCCESS)
}
