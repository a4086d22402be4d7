//! Where bundles are read from: a bundle's folder, a policy's source folder, or an archive.

use crate::{Error, tarball};
use gateway_policy::BundleFiles;
use gateway_policy::bundle::MANIFEST_FILE;
use std::path::{Path, PathBuf};

/// Where a policy's sources keep their bundle.
const BUNDLE_FOLDER: &str = "bundle";

/// The files of the bundle at `path`: a folder with a `manifest.json`, a source folder with one in `bundle/`, or an
/// archive that [`tarball::write`] made. Nothing about them is believed yet.
///
/// # Errors
/// [`Error::NotABundle`], and whatever makes the files unreadable.
pub fn read(path: &Path) -> Result<BundleFiles, Error> {
    if path.is_file() {
        return tarball::read(path);
    }
    Ok(BundleFiles::read(&folder(path)?)?)
}

/// The folder that the bundle at `path` is in, for commands that write into it.
///
/// # Errors
/// [`Error::NotABundle`], [`Error::Archive`].
pub fn folder(path: &Path) -> Result<PathBuf, Error> {
    if path.is_file() {
        return Err(Error::Archive(path.to_owned()));
    }
    let inner = path.join(BUNDLE_FOLDER);
    [path.to_owned(), inner]
        .into_iter()
        .find(|folder| folder.join(MANIFEST_FILE).is_file())
        .ok_or_else(|| Error::NotABundle(path.to_owned()))
}

/// Whether `path` is a policy's source folder: cargo's, with a bundle in it.
#[must_use]
pub fn is_source(path: &Path) -> bool {
    path.join("Cargo.toml").is_file() && path.join(BUNDLE_FOLDER).join(MANIFEST_FILE).is_file()
}
