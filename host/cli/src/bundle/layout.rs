//! Writes files atomically.

use crate::bundle::Error;
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_policy::BundleFiles;
use gateway_seal::durable;
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Creates a file and the folders above it. Writes it under another name and renames it, so that a reader never sees a part.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fault = |source| Error::Write { path: path.to_owned(), source };
    fs::create_dir_all(durable::folder_of(path)).map_err(fault)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    let draft = path.with_file_name(name);
    write_durably(&draft, bytes).and_then(|()| durable::rename(&draft, path)).map_err(|source| {
        let _left_behind = fs::remove_file(&draft);
        fault(source)
    })
}

/// Writes all files of a bundle into a new folder.
pub(crate) fn write_all(folder: &Path, files: &BundleFiles) -> Result<(), Error> {
    for (name, bytes) in files.iter() {
        write(&folder.join(name), bytes)?;
    }
    Ok(())
}

/// The report of `bundle pack`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Packed {
    pub(crate) file: PathBuf,
    pub(crate) sha256: Hex32,
}

impl ToLines for Packed {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("sha256      {}", self.sha256));
        lines.add(format_args!("wrote       {}", self.file.display()));
    }
}

/// Writes all files of a bundle as one.
pub(crate) fn pack(files: &BundleFiles, to: &Path) -> Result<Packed, Error> {
    let bytes = files.to_archive()?;
    write(to, &bytes)?;
    Ok(Packed { file: to.to_owned(), sha256: digest_bytes("", &bytes) })
}

/// Indented JSON for the file `path`, which an error names.
pub(crate) fn pretty_json<T: Serialize>(value: &T, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|fault| Error::Write { path: path.to_owned(), source: fault.into() })?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
