//! Secret files, which only their owner may access: a key, as 32 raw bytes or one line of lower-case hexadecimal; a passphrase,
//! as one line of text; or other bytes.

use crate::durable;
use crate::limits::{KEY_FILE_BYTES_MAX, PASSPHRASE_FILE_BYTES_MAX};
use crate::random::{NoRandomness, draw};
use rustix::fs::OFlags;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Why a secret file cannot be used. Each error displays as one line and never contains the file's content.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read or written.
    #[error("the file `{}` cannot be opened", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Others than its owner may access the file; or, for one of root's that is mounted for this process, others than its group.
    #[error("the file `{}` has mode {mode:04o}; it must be 0600 or 0400, or 0640 or 0440 if root owns it and this process is not root's", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The path is not a regular file, but for example a directory or a pipe.
    #[error("the file `{}` is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than allowed.
    #[error("the file `{}` has more than {bytes_max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes allowed.
        bytes_max: u64,
    },
    /// The file is neither 32 bytes nor one line of 64 lower-case hexadecimal characters.
    #[error("the key file `{}` is not 32 bytes or 64 lowercase hexadecimal characters", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// The file is not one line of UTF-8.
    #[error("the passphrase file `{}` is not one line of text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The operating system provided no randomness for a new key.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Loads a key of 32 bytes: a [`Kek`](crate::at_rest::Kek), or the seed of a signer. Use each file for one purpose only.
///
/// # Errors
/// [`KeyFileError::Unreadable`], [`KeyFileError::NotAFile`], [`KeyFileError::Exposed`] or [`KeyFileError::Malformed`].
pub fn load(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    let content = read(path, KEY_FILE_BYTES_MAX)?;
    parse(&content).ok_or_else(|| KeyFileError::Malformed { path: path.to_owned() })
}

/// Loads a key from a file, or creates the file with a fresh key if it does not exist.
///
/// # Errors
/// As [`load`], and [`KeyFileError::NoRandomness`].
pub fn load_or_create(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    if !path.exists() {
        let mut line = Zeroizing::new([b'\n'; 2 * 32 + 1]);
        let digits = line.get_mut(..2 * 32).unwrap_or_default();
        hex::encode_to_slice(draw::<32>()?.as_slice(), digits)
            .map_err(|error| unreadable(path, io::Error::other(error)))?;
        create(path, line.as_slice())?;
    }
    load(path)
}

/// Loads another secret of at most `bytes_max` bytes.
///
/// # Errors
/// [`KeyFileError::Unreadable`], [`KeyFileError::NotAFile`], [`KeyFileError::Exposed`] or [`KeyFileError::TooLarge`].
pub fn load_bytes(path: &Path, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let content = read(path, bytes_max)?;
    if content.len() as u64 > bytes_max {
        return Err(KeyFileError::TooLarge { path: path.to_owned(), bytes_max });
    }
    Ok(content)
}

/// Loads a passphrase, without its end of line. [`Kek::from_passphrase`](crate::at_rest::Kek::from_passphrase) checks its length.
///
/// # Errors
/// [`KeyFileError::Unreadable`], [`KeyFileError::NotAFile`], [`KeyFileError::Exposed`] or [`KeyFileError::NotText`].
pub fn load_passphrase(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let content = read(path, PASSPHRASE_FILE_BYTES_MAX)?;
    match std::str::from_utf8(without_end_of_line(&content)) {
        Ok(line) if !line.contains(['\r', '\n']) => Ok(Zeroizing::new(line.to_owned())),
        Ok(_) | Err(_) => Err(KeyFileError::NotText { path: path.to_owned() }),
    }
}

/// Creates a file of mode 0600, and missing parent directories of mode 0700. An existing file is left unchanged.
///
/// # Errors
/// [`KeyFileError::Unreadable`].
pub fn create(path: &Path, content: &[u8]) -> Result<(), KeyFileError> {
    // Written under another name and then linked, so that a killed process leaves no partial file under this name.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(durable::folder_of(path))
        .map_err(|source| unreadable(path, source))?;
    let _left_by_a_killed_process = std::fs::remove_file(&draft);
    let written = write(&draft, content).and_then(|()| std::fs::hard_link(&draft, path));
    let _only_untidy = std::fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unreadable(path, error)),
        // The file exists, ours or another process's. Its name must be durable before anything is sealed under its key.
        Ok(()) | Err(_) => durable::sync_folder_of(path).map_err(|source| unreadable(path, source)),
    }
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// The content of a file, and whether other users may access it.
pub struct Content {
    /// The bytes.
    pub bytes: Zeroizing<Vec<u8>>,
    /// [`KeyFileError::Exposed`] if users other than the owner may access the file.
    pub private: Result<(), KeyFileError>,
}

/// Reads a file, at most [`PASSPHRASE_FILE_BYTES_MAX`] + 1 bytes of it, for a caller that decides by the content whether it is
/// secret.
///
/// # Errors
/// [`KeyFileError::Unreadable`] or [`KeyFileError::NotAFile`].
pub fn read_any_mode(path: &Path) -> Result<Content, KeyFileError> {
    read_and_check_mode(path, PASSPHRASE_FILE_BYTES_MAX)
}

/// Reads a file that only its owner may access: at most `bytes_max + 1` bytes of it.
fn read(path: &Path, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let Content { bytes, private } = read_and_check_mode(path, bytes_max)?;
    private.map(|()| bytes)
}

fn read_and_check_mode(path: &Path, bytes_max: u64) -> Result<Content, KeyFileError> {
    // Without the flag, opening a pipe would block until a writer opens it too.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|source| unreadable(path, source))?;
    // Checks the open file, not the path: the path could lead to another file by now.
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() {
        return Err(KeyFileError::NotAFile { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o7777;
    let is_private = is_private(mode, metadata.uid(), rustix::process::geteuid().as_raw());
    let private =
        if is_private { Ok(()) } else { Err(KeyFileError::Exposed { path: path.to_owned(), mode }) };
    // Allocated in full: growing would leave a copy of the secret in freed memory.
    let size = usize::try_from(metadata.len().min(bytes_max)).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(2048.max(size + 2)));
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|source| unreadable(path, source))?;
    Ok(Content { bytes, private })
}

/// Whether a file of this mode and owner is secret to a process of this user. Kubernetes mounts secrets as root's files, which only their
/// group can read; PostgreSQL accepts them by the same rule.
const fn is_private(mode: u32, owner: u32, process: u32) -> bool {
    match mode {
        0o600 | 0o400 => true,
        0o640 | 0o440 => owner == 0 && process != 0,
        _ => false,
    }
}

/// Parses a key. Exactly 32 bytes are a raw key, unless all are hexadecimal digits: that is half of a hexadecimal key.
fn parse(content: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    if content.len() == key.len() && !content.iter().all(u8::is_ascii_hexdigit) {
        key.copy_from_slice(content);
        return Some(key);
    }
    let line = without_end_of_line(content);
    if line.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    hex::decode_to_slice(line, key.as_mut_slice()).ok()?;
    Some(key)
}

fn without_end_of_line(content: &[u8]) -> &[u8] {
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn unreadable(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn group_may_read_only_what_root_mounted_for_another_user() {
        for mode in [0o600, 0o400] {
            assert!(is_private(mode, 1000, 1000) && is_private(mode, 0, 0) && is_private(mode, 0, 1000));
        }
        for mode in [0o640, 0o440] {
            assert!(is_private(mode, 0, 1000));
            assert!(
                !is_private(mode, 1000, 1000) && !is_private(mode, 0, 0) && !is_private(mode, 1001, 1000)
            );
        }
        for mode in [0o644, 0o444, 0o660, 0o460, 0o650, 0o604, 0o4600, 0o700] {
            assert!(!is_private(mode, 0, 1000) && !is_private(mode, 1000, 1000), "{mode:o}");
        }
    }

    /// The result of `load` for a file with this content and mode.
    fn check(content: &[u8], mode: u32) -> Result<[u8; 32], String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let loaded = load(&path).map_err(|error| error.to_string().replace(path.to_str().unwrap(), "KEY"));
        loaded.map(|key| *key)
    }

    #[test]
    fn raw_and_hexadecimal_keys_are_loaded() {
        let digits = "ab".repeat(32);
        for ending in ["", "\n", "\r\n"] {
            assert_eq!(check(format!("{digits}{ending}").as_bytes(), 0o600), Ok([0xab; 32]));
        }
        assert_eq!(check(&[b'\n'; 32], 0o400), Ok([b'\n'; 32]));
    }

    #[test]
    fn file_that_others_may_access_is_rejected() {
        for mode in [0o640, 0o604, 0o660, 0o644, 0o620, 0o700] {
            let line = format!("the file `KEY` has mode {mode:04o}; it must be 0600 or 0400, or");
            assert!(check(&[7; 32], mode).unwrap_err().starts_with(&line));
        }
    }

    #[test]
    fn malformed_key_is_rejected_without_showing_its_content() {
        let digits = "ab".repeat(32);
        let wrong = [
            String::new(),
            digits[1..].to_owned(),
            digits[..32].to_owned(),
            format!("{digits}00"),
            digits.to_uppercase(),
            "é".repeat(32),
        ];
        let line = "the key file `KEY` is not 32 bytes or 64 lowercase hexadecimal characters";
        for content in wrong {
            assert_eq!(check(content.as_bytes(), 0o600), Err(line.to_owned()));
        }
        assert_eq!(check(&[7; 33], 0o600), Err(line.to_owned()));
        let missing = load(Path::new("/nowhere/node.key")).unwrap_err().to_string();
        assert_eq!(missing, "the file `/nowhere/node.key` cannot be opened");
    }

    #[test]
    fn key_file_is_created_once_with_private_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes/node.key");
        let made = load_or_create(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", hex::encode(*made)));
        assert_eq!(*load_or_create(&path).unwrap(), *made);
        create(&path, b"another").unwrap();
        assert_eq!(*load(&path).unwrap(), *made, "an existing file is left unchanged");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left behind");
        assert_ne!(*load_or_create(&folder.path().join("other.key")).unwrap(), *made);
    }

    #[test]
    fn passphrase_file_with_more_than_one_line_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        let check = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let line = load_passphrase(&path).map_err(|error| error.to_string());
            line.map(|line| line.to_string()).map_err(|error| error.replace(path.to_str().unwrap(), "FILE"))
        };
        let not_text = Err("the passphrase file `FILE` is not one line of text".to_owned());
        for ending in ["", "\n", "\r\n"] {
            assert_eq!(check(format!(" correct horse ß {ending}").as_bytes()).unwrap(), " correct horse ß ");
        }
        for wrong in [&b"one\ntwo"[..], b"one\n\n", b"\xff"] {
            assert_eq!(check(wrong), not_text);
        }
        // Reading stops one byte beyond the limit, so that stretching rejects the length.
        let length = usize::try_from(PASSPHRASE_FILE_BYTES_MAX).unwrap();
        assert_eq!(check(&vec![b'a'; 2 * length]).unwrap().len(), length + 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(load_passphrase(&path), Err(KeyFileError::Exposed { mode: 0o640, .. })));
    }
}
