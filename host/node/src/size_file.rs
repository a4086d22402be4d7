//! A file with the size of the node's log, in another folder than the database: a database that is older was restored.
//!
//! It is written after each commit and before the receipt leaves, and is not synced. So it is exact when only the process ended, may be
//! behind after a power failure, and is never ahead of the database. It says nothing after a restore of the whole machine, whose copy
//! has both: then only receipts that others show reveal what is missing.

use crate::error::NodeError;
use gateway_domain::error_chain;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The node's signing key, 64 hexadecimal digits, a space, the size, 20 digits, and a line feed. Always as long, so that each write
/// overwrites the one before.
const BYTES: usize = 64 + 1 + 20 + 1;

#[derive(Debug)]
pub(crate) struct SizeFile {
    path: PathBuf,
    file: File,
    /// The node's signing key: another node's file says nothing about this one.
    node: String,
    written: Mutex<u64>,
}

impl SizeFile {
    /// Opens or creates the file; returns the size that it has for this node, 0 if it has none.
    pub(crate) fn open(path: &Path, signing_key: &[u8; 32]) -> Result<(Self, u64), NodeError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let (file, node) = (options.open(path), hex::encode(signing_key));
        let read = file.and_then(|file| Ok((read(&file, &node)?, file)));
        let (known, file) = read.map_err(|error| unusable(path, &error))?;
        Ok((Self { path: path.to_owned(), file, node, written: Mutex::new(known) }, known))
    }

    /// Notes that the log has this size.
    pub(crate) fn raise(&self, size: u64) -> Result<(), NodeError> {
        // A size that was not written is written by the next call.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if size > *written {
            let text = format!("{} {size:020}\n", self.node);
            self.file.write_all_at(text.as_bytes(), 0).map_err(|error| unusable(&self.path, &error))?;
            *written = size;
        }
        Ok(())
    }
}

fn read(file: &File, node: &str) -> io::Result<u64> {
    let mut text = vec![0; BYTES];
    match file.metadata()?.len() {
        0 => return Ok(0),
        n_bytes if n_bytes == BYTES as u64 => file.read_exact_at(&mut text, 0)?,
        _ => return Err(malformed()),
    }
    let text = String::from_utf8(text).map_err(|_| malformed())?;
    let (name, size) = text.trim_end().split_once(' ').ok_or_else(malformed)?;
    let size = size.parse().map_err(|_| malformed())?;
    Ok(if name == node { size } else { 0 })
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not have the size of a node's log")
}

fn unusable(path: &Path, error: &io::Error) -> NodeError {
    let (path, why) = (path.display(), error_chain(error));
    let source = io::Error::other(format!("`{path}`: {why}"));
    NodeError::caused_by("the file with the size of the node's log cannot be used", source)
}
