//! `bundle activate`: replaces the folder that a gateway watches with a verified bundle, atomically.

mod gateway;

use crate::bundle::verify::Verified;
use crate::bundle::{Error, layout};
use gateway::Url;
use gateway_policy::BundleFiles;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The report of `bundle activate`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Activated {
    /// The bundle.
    #[serde(flatten)]
    pub(crate) bundle: Verified,
    /// The folder that now has the bundle.
    pub(crate) folder: PathBuf,
    /// Whether the gateway reported the bundle as active; absent without `--gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<bool>,
}

impl fmt::Display for Activated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bundle)?;
        writeln!(f, "in place    {}", self.folder.display())?;
        match self.active {
            Some(true) => writeln!(f, "active      the gateway uses it"),
            Some(false) | None => writeln!(f, "active      not checked; see GET /v1/policy/bundles"),
        }
    }
}

/// Replaces the folder `into` with the files of a verified bundle, atomically. A reader that is still reading the old folder
/// finds files missing, and has to start again.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn activate(bundle: Verified, files: &BundleFiles, into: &Path) -> Result<Activated, Error> {
    exchange(files, into).map_err(|source| Error::Write { path: into.to_owned(), source })?;
    Ok(Activated { bundle, folder: into.to_owned(), active: None })
}

/// Waits until the gateway at `url` reports the bundle as active.
///
/// # Errors
/// [`Error::NotActive`] after `timeout`, with the last answer of the gateway; [`Error::Gateway`].
pub(crate) fn wait(activated: Activated, url: &Url, timeout: Duration) -> Result<Activated, Error> {
    gateway::wait(url, &activated.bundle.bundle_hash.to_string(), timeout)?;
    Ok(Activated { active: Some(true), ..activated })
}

/// Writes the files into a folder staged `into`, then exchanges the two, because a plain rename cannot replace a folder that
/// is not empty.
fn exchange(files: &BundleFiles, into: &Path) -> io::Result<()> {
    let name = into.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let staged = into.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = layout::write_all(&staged, files).map_err(io::Error::other);
    let exchanged = written.and_then(|()| {
        if into.is_dir() {
            renameat_with(CWD, &staged, CWD, into, RenameFlags::EXCHANGE).map_err(io::Error::from)
        } else {
            fs::rename(&staged, into)
        }
    });
    // Removes the old bundle, or the new one if the exchange failed.
    let removed = if staged.exists() { fs::remove_dir_all(&staged) } else { Ok(()) };
    exchanged.and(removed)?;
    let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_policy::bundle::MANIFEST_FILE;
    use std::thread;

    const N_EXCHANGES: usize = 40;

    #[test]
    fn the_folder_exists_at_every_moment_of_an_exchange() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("active");
        let files = BundleFiles::new([(MANIFEST_FILE.to_owned(), b"{}".to_vec())]).unwrap();
        exchange(&files, &into).unwrap();
        thread::scope(|scope| {
            let exchanging = scope.spawn(|| {
                for _ in 0..N_EXCHANGES {
                    exchange(&files, &into).unwrap();
                }
            });
            // Also ends when the thread panics.
            while !exchanging.is_finished() {
                assert!(into.is_dir(), "the folder is missing");
            }
            exchanging.join().unwrap();
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary folder is left");
    }
}
