//! Reads the registry of approvers from its file.

use crate::Fault;
use gateway_domain::approval::Approvers;
use gateway_domain::approval::limits::REGISTRY_BYTES_MAX;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mode bit of files that everyone may write to. Anyone who can write the registry can approve any operation.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Reads the registry from a file that is not writable by everyone.
///
/// # Errors
/// One line that does not repeat the file's name.
pub fn load(path: &Path) -> Result<Approvers, Fault> {
    Ok(Approvers::parse(&read(path)?)?)
}

/// Reads the file's text, up to one byte more than [`Approvers::parse`] accepts.
///
/// # Errors
/// One line that does not repeat the file's name.
pub fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let unreadable = |error: std::io::Error| Fault::from(format!("cannot be opened: {}", error.kind()));
    // Opening a pipe would block.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a regular file".into());
    }
    let file = File::open(path).map_err(unreadable)?;
    // The mode of the open file: the path may name another file by now.
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & WRITABLE_BY_ALL != 0 {
        return Err(format!("has mode {:04o}: anybody may write to it", mode & 0o7777).into());
    }
    let mut text = Vec::new();
    let bytes_max = u64::try_from(REGISTRY_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut text).map_err(unreadable)?;
    Ok(text)
}
