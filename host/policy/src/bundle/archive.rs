//! A bundle as one file: a plain POSIX archive of its files.
//!
//! The bytes depend only on the files: names are in ascending order, without owner and time, and all with one mode. Reading
//! accepts only regular files with names that a bundle may have, each once. Folders, links and extensions of the format are
//! rejected, because readers interpret them differently.

use super::BundleError;
use crate::limits::{BUNDLE_FILE_BYTES_MAX, BUNDLE_FILES_MAX};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use tar::{Archive, Builder, EntryType, Header};

/// Mode of every file: bundles are public, so everyone may read.
const MODE: u32 = 0o644;

/// The files as an archive.
pub(super) fn to_bytes<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Vec<u8>, BundleError> {
    // Writing to memory does not fail.
    let in_memory = |source| BundleError::Archive { path: "memory".to_owned(), source };
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = Header::new_ustar();
        header.set_path(name).map_err(|_| BundleError::ArchiveName(name.to_owned()))?;
        header.set_size(bytes.len() as u64);
        header.set_mode(MODE);
        header.set_cksum();
        builder.append(&header, bytes).map_err(in_memory)?;
    }
    builder.into_inner().map_err(in_memory)
}

/// The files in the archive at `path`, by name; one more than a bundle may have, if there are more.
pub(super) fn read(path: &Path) -> Result<Vec<(String, Vec<u8>)>, BundleError> {
    let fault = |source| BundleError::Archive { path: path.display().to_string(), source };
    let file = File::open(path).map_err(fault)?;
    let mut archive = Archive::new(BufReader::new(file));
    let mut files = Vec::new();
    // Raw, so that an entry that only names the next one is returned like any other, and rejected.
    for entry in archive.entries().map_err(fault)?.raw(true) {
        let mut entry = entry.map_err(fault)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != EntryType::Regular {
            return Err(BundleError::NotAFile(name));
        }
        let mut bytes = Vec::new();
        let limit = BUNDLE_FILE_BYTES_MAX.saturating_add(1);
        (&mut entry).take(limit).read_to_end(&mut bytes).map_err(fault)?;
        files.push((name, bytes));
        if files.len() > BUNDLE_FILES_MAX {
            break;
        }
    }
    Ok(files)
}
