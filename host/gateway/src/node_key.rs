//! The key that encrypts the secrets of the embedded nodes: from a file, or derived from a passphrase.

use crate::compose::StartError;
use crate::settings::{NodeKey, Profile, Settings};
use gateway_runtime::participants_with_database;
use gateway_seal::at_rest::{Kek, Stretching};
use gateway_seal::key_file;
use std::error::Error;
use std::path::{Path, PathBuf};

type Fault = Box<dyn Error + Send + Sync>;

/// The file with the parameters of the derivation, beside the databases.
const STRETCHING: &str = "stretching.json";

/// The file of a new key during a rotation, beside the file of the current one.
pub(crate) fn replacement_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".next");
    name.into()
}

/// Loads the key on a blocking thread: deriving it from a passphrase takes a tenth of a second.
///
/// # Errors
/// [`StartError`], which names the file and never its content.
pub(crate) async fn open(settings: &Settings) -> Result<Kek, StartError> {
    let (key, folder) = (settings.nodes.key.clone(), settings.nodes.directory.clone());
    let profile = settings.profile;
    let opening = tokio::task::spawn_blocking(move || load(&key, &folder, profile)).await;
    let opened = opening.map_err(|error| StartError::new("node key", error))?;
    opened.map_err(|error| StartError::new("node key", error))
}

/// Loads the key. Creates a key file only in development and while there are no databases: a new key could not decrypt them.
fn load(key: &NodeKey, folder: &Path, profile: Profile) -> Result<Kek, Fault> {
    let is_first = participants_with_database(folder).is_empty();
    match key {
        NodeKey::File(path) if replacement_path(path).exists() => {
            let next = replacement_path(path);
            Err(format!(
                "`{}` is left from an interrupted rotation: run `keys rotate node` again",
                next.display()
            )
            .into())
        }
        NodeKey::File(path) if is_first && profile == Profile::Development => {
            Ok(Kek::new(key_file::load_or_create(path)?))
        }
        NodeKey::File(path) => Ok(Kek::from_file(path)?),
        NodeKey::Passphrase(path) => {
            let passphrase = key_file::load_passphrase(path)?;
            let written = folder.join(STRETCHING);
            if is_first && !written.exists() {
                let fresh = Stretching::fresh()?;
                // Derived before the parameters are written, so that a rejected passphrase leaves nothing behind.
                let kek = Kek::from_passphrase(&passphrase, &fresh)?;
                key_file::create(&written, &serde_json::to_vec(&fresh)?)?;
                return Ok(kek);
            }
            Ok(Kek::from_passphrase(&passphrase, &read(&written)?)?)
        }
    }
}

fn read(path: &Path) -> Result<Stretching, Fault> {
    let failed = |error: Fault| Fault::from(format!("stretching parameters `{}`: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| failed(error.kind().to_string().into()))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn error_line(opened: Result<Kek, Fault>, folder: &Path) -> String {
        opened.unwrap_err().to_string().replace(folder.to_str().unwrap(), "FOLDER")
    }

    #[test]
    fn key_is_created_in_development_only_while_there_are_no_databases() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let key = NodeKey::File(folder.join("node.key"));
        let missing = "the file `FOLDER/node.key` cannot be opened";
        assert_eq!(error_line(load(&key, folder, Profile::Production), folder), missing);
        fs::write(folder.join("node-3.db"), "").unwrap();
        assert_eq!(error_line(load(&key, folder, Profile::Development), folder), missing);
        fs::remove_file(folder.join("node-3.db")).unwrap();
        let made = load(&key, folder, Profile::Development).unwrap();
        assert_eq!(load(&key, folder, Profile::Production).unwrap().id(), made.id());
    }

    #[test]
    fn derivation_parameters_are_written_once_and_only_for_an_accepted_passphrase() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, path) = (folder.path(), folder.path().join("passphrase"));
        let key = NodeKey::Passphrase(path.clone());
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("short");
        assert!(error_line(load(&key, folder, Profile::Production), folder).contains("has 5 bytes"));
        assert!(!folder.join(STRETCHING).exists());
        write("correct horse battery");
        let first = load(&key, folder, Profile::Production).unwrap();
        let written = fs::read(folder.join(STRETCHING)).unwrap();
        assert_eq!(load(&key, folder, Profile::Production).unwrap().id(), first.id());
        assert_eq!(fs::read(folder.join(STRETCHING)).unwrap(), written);
        fs::write(folder.join("node-3.db"), "").unwrap();
        fs::remove_file(folder.join(STRETCHING)).unwrap();
        let lost = "stretching parameters `FOLDER/stretching.json`: entity not found";
        assert_eq!(error_line(load(&key, folder, Profile::Development), folder), lost);
    }
}
