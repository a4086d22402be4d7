//! A signing key on disk: one line, the 32-byte Ed25519 seed in lower-case hexadecimal, readable by its owner alone.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Bytes of an Ed25519 seed (RFC 8032 section 5.1.5).
const SEED_BYTES: usize = 32;

/// An Ed25519 seed, wiped when it is dropped.
pub type Seed = Zeroizing<[u8; SEED_BYTES]>;

/// More than a key file ever has: 64 digits and an end of line, in any convention.
const FILE_BYTES_MAX: u64 = 66;

/// Why there is no key. Each displays as one line for an operator and never repeats the file's content.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file can not be read or written.
    #[error("the key `{}` can not be opened: {}", path.display(), source.kind())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Others than the owner may read or write it.
    #[error("the key `{}` has mode {mode:04o}; it must be 0600", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is a folder, a device or a pipe.
    #[error("the key `{}` is not a regular file", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// It is not one line of 64 hexadecimal characters.
    #[error("the key `{}` is not 64 lowercase hexadecimal characters", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// The operating system gave no randomness.
    #[error("the operating system gave no randomness for a key")]
    NoRandomness,
}

/// The seed in the file.
///
/// # Errors
/// [`KeyFileError::Unreadable`], [`KeyFileError::Exposed`] or [`KeyFileError::Malformed`].
pub fn load(path: &Path) -> Result<Seed, KeyFileError> {
    // Nobody writes to a pipe of this name; without the flag, opening it would wait for somebody who does.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|source| unreadable(path, source))?;
    // Of the open file, not of the name: nobody can put another one in its place in between.
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() {
        return Err(KeyFileError::NotAFile { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o7777;
    if mode != 0o600 && mode != 0o400 {
        return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(128));
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Ok(_) => parse(text.trim_end_matches(['\r', '\n']))
            .ok_or_else(|| KeyFileError::Malformed { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(KeyFileError::Malformed { path: path.to_owned() })
        }
        Err(source) => Err(unreadable(path, source)),
    }
}

/// The seed in the file, which is made with a fresh one when it is not there. For development: in production an
/// operator makes the key, and whoever relies on it has its public half before the gateway ever starts.
///
/// # Errors
/// As [`load`], and [`KeyFileError::NoRandomness`].
pub fn load_or_create(path: &Path) -> Result<Seed, KeyFileError> {
    if path.exists() {
        return load(path);
    }
    // Whole under another name first: a process that is killed in between leaves no half key behind.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let _left_by_a_killed_process = std::fs::remove_file(&draft);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    create(&draft, file.map_err(|source| unreadable(path, source))?)?;
    let named = std::fs::hard_link(&draft, path);
    let _only_untidy = std::fs::remove_file(&draft);
    sync_folder(path).map_err(|source| unreadable(path, source))?;
    match named {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unreadable(path, error)),
        // Another process was first, or ours is in place.
        Ok(()) | Err(_) => load(path),
    }
}

fn create(path: &Path, file: File) -> Result<(), KeyFileError> {
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    let written = match getrandom::fill(seed.as_mut_slice()) {
        Ok(()) => write(path, file, &seed).map_err(|source| unreadable(path, source)),
        Err(_) => Err(KeyFileError::NoRandomness),
    };
    if let Err(error) = written {
        // Half a key would be refused at every start from now on.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(())
}

/// Durable before anything is signed with it: its file, and the name in the folder.
fn write(path: &Path, mut file: File, seed: &Seed) -> io::Result<()> {
    let mut line = Zeroizing::new([b'\n'; 2 * SEED_BYTES + 1]);
    let digits = line.get_mut(..2 * SEED_BYTES).unwrap_or_default();
    hex::encode_to_slice(seed.as_slice(), digits).map_err(io::Error::other)?;
    file.write_all(line.as_slice())?;
    file.sync_all()?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn parse(text: &str) -> Option<Seed> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    hex::decode_to_slice(text, seed.as_mut_slice()).ok()?;
    Some(seed)
}

fn unreadable(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn line(error: &KeyFileError, path: &Path) -> String {
        error.to_string().replace(&path.display().to_string(), "KEY")
    }

    #[test]
    fn a_key_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.key");
        let made = load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(*load_or_create(&path).unwrap(), *made);
        assert_eq!(*load(&path).unwrap(), *made);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", hex::encode(*made)));
        assert_ne!(*load_or_create(&folder.path().join("other.key")).unwrap(), *made);
    }

    #[test]
    fn an_exposed_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.key");
        load_or_create(&path).unwrap();
        for mode in [0o640, 0o604, 0o660, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = load_or_create(&path).unwrap_err();
            assert_eq!(line(&error, &path), format!("the key `KEY` has mode {mode:04o}; it must be 0600"));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(load(&path).is_ok());
    }

    #[test]
    fn anything_but_a_seed_is_refused_without_being_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.key");
        let error = load(&path).unwrap_err();
        assert_eq!(line(&error, &path), "the key `KEY` can not be opened: entity not found");
        let seed = "ab".repeat(32);
        let wrong =
            [String::new(), seed[1..].to_owned(), format!("{seed}00"), seed.to_uppercase(), "é".repeat(33)];
        for content in wrong {
            fs::write(&path, &content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = load_or_create(&path).unwrap_err();
            assert_eq!(line(&error, &path), "the key `KEY` is not 64 lowercase hexadecimal characters");
        }
        fs::write(&path, format!("{seed}\r\n")).unwrap();
        assert!(load(&path).is_ok());
    }
}
