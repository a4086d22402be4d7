//! The key that the embedded nodes' secrets are sealed under: in a file, or stretched from a passphrase.

use crate::compose::StartError;
use crate::settings::{NodeKey, Profile, Settings};
use gateway_runtime::existing;
use gateway_seal::at_rest::{Kek, Stretching};
use gateway_seal::key_file;
use std::error::Error;
use std::path::{Path, PathBuf};

type Fault = Box<dyn Error + Send + Sync>;

/// How the passphrase is stretched, beside the databases that are sealed under it.
const STRETCHING: &str = "stretching.json";

/// Where the key is that is to take the place of the one in this file.
pub(crate) fn next(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".next");
    name.into()
}

/// The key. A passphrase takes a tenth of a second, on a thread where nobody waits for it.
///
/// # Errors
/// [`StartError`] naming the file that is wrong, never what is in it.
pub(crate) async fn open(settings: &Settings) -> Result<Kek, StartError> {
    let (key, folder) = (settings.node_key.clone(), settings.node_directory.clone());
    let profile = settings.profile;
    let opening = tokio::task::spawn_blocking(move || load(&key, &folder, profile)).await;
    let opened = opening.map_err(|error| StartError::new("node key", error))?;
    opened.map_err(|error| StartError::new("node key", error))
}

/// Nothing is made where nodes have databases already: what they were sealed under is missing, not new.
fn load(key: &NodeKey, folder: &Path, profile: Profile) -> Result<Kek, Fault> {
    let is_first = existing(folder).is_empty();
    match key {
        NodeKey::File(path) if next(path).exists() => {
            let next = next(path);
            Err(format!("`{}` is there: run `keys rotate node` again, to its end", next.display()).into())
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
                // Tried before it is kept: a passphrase that is refused leaves nothing behind.
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

    fn line(opened: Result<Kek, Fault>, folder: &Path) -> String {
        opened.unwrap_err().to_string().replace(folder.to_str().unwrap(), "FOLDER")
    }

    #[test]
    fn a_key_is_made_in_development_and_only_before_there_are_databases() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let key = NodeKey::File(folder.join("node.key"));
        let missing = "the file `FOLDER/node.key` cannot be opened";
        assert_eq!(line(load(&key, folder, Profile::Production), folder), missing);
        fs::write(folder.join("node-3.db"), "").unwrap();
        assert_eq!(line(load(&key, folder, Profile::Development), folder), missing);
        fs::remove_file(folder.join("node-3.db")).unwrap();
        let made = load(&key, folder, Profile::Development).unwrap();
        assert_eq!(load(&key, folder, Profile::Production).unwrap().id(), made.id());
    }

    #[test]
    fn stretching_is_written_once_and_only_for_a_passphrase_that_holds() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, path) = (folder.path(), folder.path().join("passphrase"));
        let key = NodeKey::Passphrase(path.clone());
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("short");
        assert!(line(load(&key, folder, Profile::Production), folder).contains("has 5 bytes"));
        assert!(!folder.join(STRETCHING).exists());
        write("correct horse battery");
        let first = load(&key, folder, Profile::Production).unwrap();
        let written = fs::read(folder.join(STRETCHING)).unwrap();
        assert_eq!(load(&key, folder, Profile::Production).unwrap().id(), first.id());
        assert_eq!(fs::read(folder.join(STRETCHING)).unwrap(), written);
        fs::write(folder.join("node-3.db"), "").unwrap();
        fs::remove_file(folder.join(STRETCHING)).unwrap();
        let lost = "stretching parameters `FOLDER/stretching.json`: entity not found";
        assert_eq!(line(load(&key, folder, Profile::Development), folder), lost);
    }
}
