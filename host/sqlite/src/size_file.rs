//! A file with the size that a database has reached, in another folder: a database that is smaller was restored.
//!
//! It is written after each commit and before anything leaves that needs the commit, and is not synced. So it is exact when only the
//! process ended, may be behind after a power failure, and is never ahead of the database. It says nothing after a restore of the whole
//! machine, whose copy has both.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The owner's public key, 64 hexadecimal digits, a space, the size, 20 digits, and a line feed. Always as long, so that each write
/// overwrites the one before.
const BYTES: usize = 64 + 1 + 20 + 1;

/// An open file with a database's size. The size is a number that only grows, such as the entries of a log.
#[derive(Debug)]
pub struct SizeFile {
    path: PathBuf,
    file: File,
    /// In hexadecimal. The file of another owner says nothing about this one.
    owner: String,
    written: Mutex<u64>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {why}", path.display())]
pub struct SizeFileError {
    path: PathBuf,
    why: io::Error,
}

impl SizeFile {
    /// Opens or creates the file with mode 0600; returns the size that it has for this owner, 0 if it has none.
    ///
    /// # Errors
    /// [`SizeFileError`], also when the file has other content than a size: a program that garbles it could hide a restored database.
    pub fn open(path: &Path, owner: &[u8; 32]) -> Result<(Self, u64), SizeFileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let owner: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
        let read = options.open(path).and_then(|file| Ok((read(&file, &owner)?, file)));
        let (known, file) = read.map_err(|why| unusable(path, why))?;
        Ok((Self { path: path.to_owned(), file, owner, written: Mutex::new(known) }, known))
    }

    /// Notes that the database has this size, which must be durable. A lower one is ignored. If it fails, the next call writes the size.
    pub fn raise(&self, size: u64) -> Result<(), SizeFileError> {
        let mut written = self.written.lock();
        if size > *written {
            let text = format!("{} {size:020}\n", self.owner);
            self.file.write_all_at(text.as_bytes(), 0).map_err(|why| unusable(&self.path, why))?;
            *written = size;
        }
        Ok(())
    }
}

fn read(file: &File, owner: &str) -> io::Result<u64> {
    let mut text = vec![0; BYTES];
    match file.metadata()?.len() {
        0 => return Ok(0),
        n_bytes if n_bytes == BYTES as u64 => file.read_exact_at(&mut text, 0)?,
        _ => return Err(malformed()),
    }
    let text = String::from_utf8(text).map_err(|_| malformed())?;
    let (name, size) = text.trim_end().split_once(' ').ok_or_else(malformed)?;
    let size = size.parse().map_err(|_| malformed())?;
    Ok(if name == owner { size } else { 0 })
}

fn unusable(path: &Path, why: io::Error) -> SizeFileError {
    SizeFileError { path: path.to_owned(), why }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not have the size of a database")
}
