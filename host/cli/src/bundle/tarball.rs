//! A bundle as one file: a plain POSIX archive of its files.
//!
//! The bytes depend only on the files: names are in ascending order, without owner and time, and all with one mode. Reading
//! accepts only regular files with names that a bundle may have, each once. Folders, links and extensions of the format are
//! rejected, because readers interpret them differently.

use crate::bundle::{Error, layout};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_policy::BundleFiles;
use gateway_policy::limits::{BUNDLE_FILE_BYTES_MAX, BUNDLE_FILES_MAX};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use tar::{Archive, Builder, EntryType, Header};

/// Mode of every file: bundles are public, so everyone may read.
const MODE: u32 = 0o644;

/// The report of `bundle pack`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Packed {
    /// The archive's file.
    pub(crate) file: PathBuf,
    /// SHA-256 of its bytes.
    pub(crate) sha256: Hex32,
}

impl ToLines for Packed {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("sha256      {}", self.sha256));
        lines.add(format_args!("wrote       {}", self.file.display()));
    }
}

/// Writes the files as an archive.
///
/// # Errors
/// [`Error::TarName`], [`Error::Write`].
pub(crate) fn write(files: &BundleFiles, to: &Path) -> Result<Packed, Error> {
    let bytes = to_bytes(files)?;
    layout::write(to, &bytes)?;
    Ok(Packed { file: to.to_owned(), sha256: digest_bytes("", &bytes) })
}

fn to_bytes(files: &BundleFiles) -> Result<Vec<u8>, Error> {
    // Writing to memory does not fail.
    let in_memory = |source| Error::Write { path: PathBuf::from("memory"), source };
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in files.iter() {
        let mut header = Header::new_ustar();
        header.set_path(name).map_err(|_| Error::TarName(name.to_owned()))?;
        header.set_size(bytes.len() as u64);
        header.set_mode(MODE);
        header.set_cksum();
        builder.append(&header, bytes).map_err(in_memory)?;
    }
    builder.into_inner().map_err(in_memory)
}

/// The files in the archive at `path`.
///
/// # Errors
/// [`Error::Tar`], [`Error::TarEntry`], or the bundle's own for names, sizes and numbers of files.
pub(crate) fn read(path: &Path) -> Result<BundleFiles, Error> {
    let fault = |source| Error::Tar { path: path.to_owned(), source };
    let file = File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let mut archive = Archive::new(BufReader::new(file));
    let mut files = Vec::new();
    // Raw, so that an entry that only names the next one is returned like any other, and rejected.
    for entry in archive.entries().map_err(fault)?.raw(true) {
        let mut entry = entry.map_err(fault)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != EntryType::Regular {
            return Err(Error::TarEntry { path: path.to_owned(), entry: name });
        }
        let mut bytes = Vec::new();
        let limit = BUNDLE_FILE_BYTES_MAX.saturating_add(1);
        (&mut entry).take(limit).read_to_end(&mut bytes).map_err(fault)?;
        files.push((name, bytes));
        if files.len() > BUNDLE_FILES_MAX {
            break;
        }
    }
    Ok(BundleFiles::new(files)?)
}

#[cfg(test)]
mod tests;
