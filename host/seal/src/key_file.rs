//! A key on disk: 32 bytes, raw or as one line of lower-case hexadecimal, readable by its owner alone.

use crate::limits::KEY_FILE_BYTES_MAX;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Why there is no key. Each displays as one line for an operator and never repeats the file's content.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file can not be read.
    #[error("the key file `{}` can not be opened: {}", path.display(), source.kind())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Others than the owner may read or write it.
    #[error("the key file `{}` has mode {mode:04o}; it must be 0600 or 0400", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is neither 32 bytes nor one line of 64 hexadecimal characters.
    #[error("the key file `{}` is not 32 bytes or 64 lowercase hexadecimal characters", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

/// The key in the file: the seed of a [`NodeSecret`](crate::node_key::NodeSecret) or of a
/// [`Kek`](crate::at_rest::Kek), never of both.
///
/// # Errors
/// [`KeyFileError`].
pub fn load(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    let unreadable = |source| KeyFileError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    // Of the open file, not of the name: nobody can put another one in its place in between.
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if mode != 0o600 && mode != 0o400 {
        return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
    }
    let mut content = Zeroizing::new(Vec::with_capacity(128));
    file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(unreadable)?;
    parse(&content).ok_or_else(|| KeyFileError::Malformed { path: path.to_owned() })
}

/// Which form it is follows from the length: 32 bytes are a raw key, even one that ends like a line.
fn parse(content: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    if content.len() == key.len() {
        key.copy_from_slice(content);
        return Some(key);
    }
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    hex::decode_to_slice(line, key.as_mut_slice()).ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// What `load` says about a file of this content and mode.
    fn check(content: &[u8], mode: u32) -> Result<[u8; 32], String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let loaded = load(&path).map_err(|error| error.to_string().replace(path.to_str().unwrap(), "KEY"));
        loaded.map(|key| *key)
    }

    #[test]
    fn both_forms_are_read() {
        let digits = "ab".repeat(32);
        for ending in ["", "\n", "\r\n"] {
            assert_eq!(check(format!("{digits}{ending}").as_bytes(), 0o600), Ok([0xab; 32]));
        }
        assert_eq!(check(&[b'\n'; 32], 0o400), Ok([b'\n'; 32]));
    }

    #[test]
    fn an_exposed_file_is_refused() {
        for mode in [0o640, 0o604, 0o660, 0o644, 0o620, 0o700] {
            let line = format!("the key file `KEY` has mode {mode:04o}; it must be 0600 or 0400");
            assert_eq!(check(&[7; 32], mode), Err(line));
        }
    }

    #[test]
    fn anything_but_a_key_is_refused_without_being_repeated() {
        let digits = "ab".repeat(32);
        let wrong = [
            String::new(),
            digits[1..].to_owned(),
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
        assert_eq!(missing, "the key file `/nowhere/node.key` can not be opened: entity not found");
    }
}
