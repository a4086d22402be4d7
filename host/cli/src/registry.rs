//! Reads the registry of approvers from its file.

use crate::Fault;
use gateway_domain::approval::Approvers;
use gateway_domain::approval::limits::REGISTRY_BYTES_MAX;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mode bit of files that everyone may write to: who can write the registry can approve anything.
const WRITABLE_BY_ALL: u32 = 0o002;

/// The registry in a file that is not writable by everyone.
///
/// # Errors
/// One line that does not repeat the file's name.
pub fn load(path: &Path) -> Result<Approvers, Fault> {
    Ok(Approvers::parse(&read(path)?)?)
}

/// The file's text, of which more than [`REGISTRY_BYTES_MAX`] is refused by [`Approvers::parse`].
///
/// # Errors
/// As [`load`].
pub fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let unreadable = |error: std::io::Error| Fault::from(format!("cannot be opened: {}", error.kind()));
    // Opening a pipe would block this and every later reading.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a regular file".into());
    }
    let file = File::open(path).map_err(unreadable)?;
    // The mode of the open file: the name may be another file by now.
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & WRITABLE_BY_ALL != 0 {
        return Err(format!("has mode {:04o}: anybody may write to it", mode & 0o7777).into());
    }
    let mut text = Vec::new();
    let bytes_max = u64::try_from(REGISTRY_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut text).map_err(unreadable)?;
    Ok(text)
}
