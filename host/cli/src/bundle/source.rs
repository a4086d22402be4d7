//! Reads bundles from a bundle's folder, a policy's source folder, or an archive.

use crate::bundle::Error;
use gateway_policy::BundleFiles;
use gateway_policy::bundle::{MANIFEST_FILE, SOURCE_BUNDLE};
use std::path::{Path, PathBuf};

/// The files of the bundle at `path`: a folder with a `manifest.json`, a source folder with one in `bundle/`, or an archive. Nothing is
/// verified.
pub(crate) fn read(path: &Path) -> Result<BundleFiles, Error> {
    if path.is_file() {
        return Ok(BundleFiles::read(path)?);
    }
    Ok(BundleFiles::read(&folder(path)?)?)
}

/// The folder of the bundle at `path`, for commands that write into it.
pub(crate) fn folder(path: &Path) -> Result<PathBuf, Error> {
    if path.is_file() {
        return Err(Error::Archive(path.to_owned()));
    }
    let inner = path.join(SOURCE_BUNDLE);
    [path.to_owned(), inner]
        .into_iter()
        .find(|folder| folder.join(MANIFEST_FILE).is_file())
        .ok_or_else(|| Error::NotABundle(path.to_owned()))
}

/// Whether `path` is a policy's source folder: a cargo workspace with a bundle.
#[must_use]
pub(crate) fn is_source(path: &Path) -> bool {
    path.join("Cargo.toml").is_file() && path.join(SOURCE_BUNDLE).join(MANIFEST_FILE).is_file()
}
