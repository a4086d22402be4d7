//! `bundle activate`: a verified bundle into the folder that a gateway watches, in one step.

mod gateway;

pub use gateway::Url;

use crate::verify::{Verified, verify_files};
use crate::{Error, layout, source};
use gateway_domain::time::EpochMs;
use gateway_policy::BundleFiles;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is to be activated, and where.
#[derive(Clone, Debug)]
pub struct Activate {
    /// The bundle.
    pub bundle: PathBuf,
    /// The gateway's setting `policy_bundle`.
    pub into: PathBuf,
    /// The gateway's setting `policy_trust_roots`.
    pub roots: PathBuf,
    /// The gateway's setting `policy_pins`.
    pub pins: String,
}

/// What was put in place.
#[derive(Clone, Debug, Serialize)]
pub struct Activated {
    /// The bundle.
    #[serde(flatten)]
    pub bundle: Verified,
    /// Where it is.
    pub folder: PathBuf,
    /// Whether the gateway said that it judges with it now; nothing when it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

impl fmt::Display for Activated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bundle)?;
        writeln!(f, "in place    {}", self.folder.display())?;
        match self.active {
            Some(true) => writeln!(f, "active      the gateway judges with it"),
            Some(false) | None => writeln!(f, "active      not asked; see GET /v1/policy/bundles"),
        }
    }
}

/// Verifies the bundle as the gateway will, and exchanges the folder for it. A reader of the folder finds the old bundle
/// or the new one. Whoever is reading the old one at that moment finds files missing, and has to look again.
///
/// # Errors
/// [`Error::Bundle`] for a bundle that the gateway would refuse, [`Error::Write`]; the folder is as it was then.
pub fn activate(activate: &Activate, now: EpochMs) -> Result<Activated, Error> {
    let files = source::read(&activate.bundle)?;
    let bundle = verify_files(files.clone(), &activate.roots, &activate.pins, now)?;
    exchange(&files, &activate.into)
        .map_err(|source| Error::Write { path: activate.into.clone(), source })?;
    Ok(Activated { bundle, folder: activate.into.clone(), active: None })
}

/// Waits until the gateway at `url` says that the bundle is active.
///
/// # Errors
/// [`Error::NotActive`] after `patience`, with what the gateway said last; [`Error::Gateway`].
pub fn wait(activated: Activated, url: &Url, patience: Duration) -> Result<Activated, Error> {
    gateway::wait(url, &activated.bundle.bundle_hash.to_string(), patience)?;
    Ok(Activated { active: Some(true), ..activated })
}

/// Whole beside it first, then one rename: `rename` alone replaces no folder that has files in it.
fn exchange(files: &BundleFiles, into: &Path) -> io::Result<()> {
    let name = into.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let beside = into.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = layout::write_all(&beside, files).map_err(io::Error::other);
    let exchanged = written.and_then(|()| {
        if into.is_dir() {
            renameat_with(CWD, &beside, CWD, into, RenameFlags::EXCHANGE).map_err(io::Error::from)
        } else {
            fs::rename(&beside, into)
        }
    });
    // The new bundle when that failed, or else the old one.
    let tidied = if beside.exists() { fs::remove_dir_all(&beside) } else { Ok(()) };
    exchanged.and(tidied)?;
    let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_policy::bundle::MANIFEST_FILE;
    use std::thread;

    const N_EXCHANGES: usize = 40;

    /// As a gateway that looks at the wrong moment.
    #[test]
    fn a_reader_never_finds_the_folder_gone() {
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
            // It ends by itself, also when it fails, so that nothing here is waited for in vain.
            while !exchanging.is_finished() {
                assert!(into.is_dir(), "gone");
            }
            exchanging.join().unwrap();
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
