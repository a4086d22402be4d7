//! The files of a database: folder, file, lock. No SQL.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::OpenError;

/// First bytes of every SQLite database that is not empty (SQLite file format, section 1.3.1).
const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Suffixes of a database's files: SQLite's side files, whose log has the same content as the database, and this crate's lock.
const SUFFIXES: [&str; 5] = ["", "-wal", "-shm", "-journal", ".lock"];

/// The files that belong to a database beside it. Its log has commits that the database does not have yet.
pub(crate) const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Follows the name of a copy that is not complete.
pub(crate) const PARTIAL: &str = ".partial";

/// Follows the name of a database that a copy replaced; then comes a number.
pub(crate) const REPLACED: &str = ".before-restore-";

/// Checks that the file exists and can be written, creating it if asked. Returns its path without symbolic links, so that
/// both find the same lock.
pub(crate) fn prepare(path: &Path, create: bool) -> Result<PathBuf, OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let (true, Some(folder)) = (create, folder) {
        create_folder(folder).map_err(|source| unwritable(folder, source))?;
        if !path.exists() {
            check_folder(folder)?;
        }
    }
    let opened = OpenOptions::new().read(true).write(true).create(create).mode(0o600).open(path);
    match opened.and_then(|_| fs::canonicalize(path)) {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => {
            Err(OpenError::Missing { path: path.to_owned() })
        }
        Err(source) => Err(unwritable(path, source)),
    }
}

/// The path of an existing file without symbolic links.
pub(crate) fn existing(path: &Path) -> Result<PathBuf, OpenError> {
    fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::Missing { path: path.to_owned() },
        _ => OpenError::Failed { path: path.to_owned(), source: sqlx::Error::Io(error) },
    })
}

/// Refuses files that users other than the owner can read or write: their mode is 0600 or 0400, nothing else. Also refuses a
/// world-writable folder, where any user could replace the log. A group may write the folder, because volumes are mounted
/// that way. Does not open the files: closing one would release SQLite's locks on it.
pub(crate) fn check_private(path: &Path) -> Result<(), OpenError> {
    for suffix in SUFFIXES {
        let path = with_suffix(path, suffix);
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.mode() & 0o7777,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(unwritable(&path, source)),
        };
        if !matches!(mode, 0o600 | 0o400) {
            return Err(OpenError::Exposed { path, mode });
        }
    }
    path.parent().map_or(Ok(()), check_folder)
}

fn check_folder(folder: &Path) -> Result<(), OpenError> {
    let metadata = fs::metadata(folder).map_err(|source| unwritable(folder, source))?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o002 == 0 {
        return Ok(());
    }
    Err(OpenError::ExposedFolder { path: folder.to_owned(), mode })
}

/// The locks of the process that writes a database, until they are dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    _of_name: File,
    /// Of the file itself, which another mount may show under another name. It does not touch SQLite's locks (`fcntl`), but closing it
    /// releases them: it is dropped once SQLite has closed the file.
    _of_file: Option<File>,
}

/// Takes the locks of the process that writes `path`. The lock file is never removed: otherwise two processes could lock two files of the
/// same name.
pub(crate) fn lock(path: &Path) -> Result<Locks, OpenError> {
    let lock_path = with_suffix(path, ".lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(|source| unwritable(&lock_path, source))?;
    let of_name = locked(file, path)?;
    let of_file = match File::open(path) {
        Ok(file) => Some(locked(file, path)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(unwritable(path, source)),
    };
    Ok(Locks { _of_name: of_name, _of_file: of_file })
}

fn locked(file: File, path: &Path) -> Result<File, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => match Errno::from_io_error(&source) {
            // What NFS answers, whose locks are others and need a file that is open for writing, or a server for them.
            Some(Errno::BADF | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Err(OpenError::NoLocks { path: path.to_owned(), source })
            }
            Some(_) | None => Err(unwritable(path, source)),
        },
    }
}

/// Removes the second name that a copy or a restore left of this file if it was killed. The files that a restore had taken away from beside
/// it come back before. The caller has the lock.
pub(crate) fn remove_second_name(path: &Path) -> Result<(), OpenError> {
    let failed = |source| unwritable(path, source);
    let file = fs::metadata(path).map_err(failed)?;
    if file.nlink() <= 1 {
        return Ok(());
    }
    let folder = folder_of(path);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let other = entry.map_err(failed)?.path();
        let is_same = |other: fs::Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
        if !is_second_name(path, &other) || !fs::symlink_metadata(&other).is_ok_and(is_same) {
            continue;
        }
        for suffix in SIDE_FILES {
            bring_back(&with_suffix(&other, suffix), &with_suffix(path, suffix)).map_err(failed)?;
        }
        fs::remove_file(&other).map_err(|source| unwritable(&other, source))?;
        tracing::warn!(path = %other.display(), "removed a second name of the database, which an interrupted copy or restore left");
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Whether this is a name that a copy or a restore gives the file.
fn is_second_name(path: &Path, other: &Path) -> bool {
    let name = |path: &Path| path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
    let (name, other) = (name(path), name(other));
    let Some(rest) = other.strip_prefix(name.as_slice()) else { return false };
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    rest == PARTIAL.as_bytes() || rest.strip_prefix(REPLACED.as_bytes()).is_some_and(is_number)
}

/// Renames a file, if it exists. Another one that is not empty is not replaced.
fn bring_back(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from).is_err() {
        return Ok(());
    }
    if fs::symlink_metadata(to).is_ok_and(|there| there.len() > 0) {
        let why = format!("`{}` and `{}` both exist", from.display(), to.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    fs::rename(from, to)
}

/// Refuses a file with more than one name: each name has a log of its own, and what is in one is not seen through the other.
pub(crate) fn check_only_name(path: &Path) -> Result<(), OpenError> {
    let n_names = fs::metadata(path).map_err(|source| unwritable(path, source))?.nlink();
    if n_names <= 1 {
        return Ok(());
    }
    Err(OpenError::OtherName { path: path.to_owned(), n_names })
}

/// Refuses a file that is not a SQLite database, before SQLite could change it. An empty file is a new database.
pub(crate) fn check_header(path: &Path) -> Result<(), OpenError> {
    let mut found = Vec::with_capacity(HEADER.len());
    File::open(path)
        .and_then(|file| file.take(HEADER.len() as u64).read_to_end(&mut found))
        .map_err(|source| unwritable(path, source))?;
    if found.is_empty() || found == HEADER {
        return Ok(());
    }
    Err(OpenError::ForeignBytes { path: path.to_owned() })
}

/// The path with more behind its last name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder of a file, which for a name alone is the working directory.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates `folder` and its missing parents, and syncs each one's parent.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    create_folder(parent)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => File::open(parent)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

fn unwritable(path: &Path, source: io::Error) -> OpenError {
    OpenError::Unwritable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a descriptor answers a lock as a file on NFS does that is open for reading only.
    #[test]
    fn file_system_without_locks_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let flags = rustix::fs::OFlags::PATH.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(folder.path()).unwrap();
        let refused = locked(file, Path::new("/mnt/gateway.db")).unwrap_err();
        assert!(matches!(refused, OpenError::NoLocks { .. }), "{refused:?}");
        assert_eq!(
            refused.to_string(),
            "the file system of the database `/mnt/gateway.db` cannot lock files: keep it on a local disk"
        );
    }
}
