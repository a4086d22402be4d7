//! Nodes' databases, checked beside the process that serves with them: none is opened to be written, and nothing begun.

use crate::config::database;
use crate::health::unreadable;
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{Damage, NodeFile, Scope};
use gateway_seal::at_rest::Kek;
use std::path::Path;
use std::sync::Arc;

/// Everything that is wrong with a node's database, as it is at one moment; that it can not be read is a finding too.
pub async fn check_file(folder: &Path, participant: ParticipantIndex, kek: &Arc<Kek>) -> Vec<Damage> {
    match NodeFile::open(&database(folder, participant), participant, Arc::clone(kek)).await {
        Ok(file) => {
            let found = file.check().await;
            file.close().await;
            found.unwrap_or_else(|error| vec![unreadable(&error)])
        }
        Err(error) => vec![unreadable(&error)],
    }
}

/// Of these generations, which a node must have in force, those that it has not. Nothing of a database that can not be
/// read: [`check_file`] says that.
pub async fn file_lacks(
    folder: &Path,
    participant: ParticipantIndex,
    kek: Option<&Arc<Kek>>,
    keys: &[(KeyId, Epoch)],
) -> Vec<(KeyId, Damage)> {
    let path = database(folder, participant);
    let lacking = match kek.filter(|_| path.exists()) {
        None => keys.iter().map(|(key_id, _)| (*key_id, "it has no database".to_owned())).collect(),
        Some(kek) => match NodeFile::open(&path, participant, Arc::clone(kek)).await {
            Ok(file) => {
                let lacking = file.check_holds(keys).await;
                file.close().await;
                lacking.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        },
    };
    let damage = |(key_id, what)| {
        let row = format!("key_id {key_id}");
        (key_id, Damage { table: "share", row, what, scope: Scope::Key(key_id) })
    };
    lacking.into_iter().map(damage).collect()
}
