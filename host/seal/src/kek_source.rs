//! The source of a node's key-encryption key: a file, or a passphrase from which it is derived.

use crate::at_rest::{Kek, Stretching};
use crate::key_file;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Why the key cannot be loaded.
pub type Fault = Box<dyn Error + Send + Sync>;

/// The file with the parameters of the derivation, beside the databases.
const STRETCHING: &str = "stretching.json";

/// The file of a new key during a rotation, beside the file of the current one.
#[must_use]
pub fn replacement_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".next");
    name.into()
}

/// The source of a key-encryption key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KekSource {
    /// A file with the key.
    File(PathBuf),
    /// A file with a passphrase.
    Passphrase(PathBuf),
}

/// What may be created if it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creates {
    /// Nothing: there are databases, which a new key could not decrypt.
    Nothing,
    /// The parameters of the derivation from a passphrase.
    Stretching,
    /// Those, or the file of a key.
    Key,
}

impl KekSource {
    /// A file beside this one: its path with a dot and `name`.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        let (Self::File(path) | Self::Passphrase(path)) = self;
        path.with_added_extension(name)
    }

    /// Loads the key. Deriving it from a passphrase takes a tenth of a second. The parameters of the derivation are in `folder`.
    ///
    /// # Errors
    /// One line, which names the file and never its content.
    pub fn load(&self, folder: &Path, creates: Creates) -> Result<Kek, Fault> {
        match self {
            Self::File(path) if replacement_path(path).exists() => {
                let next = replacement_path(path);
                Err(format!(
                    "`{}` is left from an interrupted rotation: run `keys rotate node` again, or `runtime-node rewrap`",
                    next.display()
                )
                .into())
            }
            Self::File(path) if creates == Creates::Key => Ok(Kek::new(key_file::load_or_create(path)?)),
            Self::File(path) => Ok(Kek::from_file(path)?),
            Self::Passphrase(path) => {
                let passphrase = key_file::load_passphrase(path)?;
                let written = folder.join(STRETCHING);
                if creates != Creates::Nothing && !written.exists() {
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
    fn key_is_created_only_where_it_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let key = KekSource::File(folder.join("node.key"));
        let missing = "the file `FOLDER/node.key` cannot be opened";
        assert_eq!(error_line(key.load(folder, Creates::Stretching), folder), missing);
        assert_eq!(error_line(key.load(folder, Creates::Nothing), folder), missing);
        let made = key.load(folder, Creates::Key).unwrap();
        assert_eq!(key.load(folder, Creates::Nothing).unwrap().id(), made.id());
    }

    #[test]
    fn derivation_parameters_are_written_once_and_only_for_an_accepted_passphrase() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, path) = (folder.path(), folder.path().join("passphrase"));
        let key = KekSource::Passphrase(path.clone());
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("short");
        assert!(error_line(key.load(folder, Creates::Stretching), folder).contains("has 5 bytes"));
        assert!(!folder.join(STRETCHING).exists());
        write("correct horse battery");
        let first = key.load(folder, Creates::Stretching).unwrap();
        let written = fs::read(folder.join(STRETCHING)).unwrap();
        assert_eq!(key.load(folder, Creates::Stretching).unwrap().id(), first.id());
        assert_eq!(fs::read(folder.join(STRETCHING)).unwrap(), written);
        fs::remove_file(folder.join(STRETCHING)).unwrap();
        let lost = "stretching parameters `FOLDER/stretching.json`: entity not found";
        assert_eq!(error_line(key.load(folder, Creates::Nothing), folder), lost);
    }
}
