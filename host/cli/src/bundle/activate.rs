//! `bundle activate`: replaces the folder that a gateway watches with a verified bundle, atomically.

mod gateway;

use crate::bundle::verify::{self, LastActivation, Verified};
use crate::bundle::{Error, Trust, layout, source};
pub(crate) use gateway::{EXIT_CODES, GatewayArgs, TOKEN_BYTES_MAX};
use gateway_domain::time::EpochMs;
use gateway_policy::BundleFiles;
use gateway_seal::durable;
use gateway_service::output::{Lines, ToLines};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The report of `bundle activate`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Activated {
    #[serde(flatten)]
    pub(crate) bundle: Verified,
    /// The folder that now has the bundle.
    pub(crate) folder: PathBuf,
    /// Whether the gateway reported the bundle as active; absent without `--gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<bool>,
}

impl ToLines for Activated {
    fn add_to(&self, lines: &mut Lines) {
        self.bundle.add_to(lines);
        lines.add(format_args!("in place    {}", self.folder.display()));
        match self.active {
            Some(true) => lines.add(format_args!("active      the gateway uses it")),
            Some(false) | None => {
                lines.add(format_args!("active      not checked; see GET /v1/policy/bundles"))
            }
        }
    }
}

/// Verifies the bundle at `path` and replaces the folder `into` with it, atomically. A reader that is still reading the old folder
/// finds files missing, and has to start again.
///
/// The bundle's sequence must be above the one that the gateway reports, or without a gateway that of the bundle in `into`. With a
/// gateway, waits until it reports the bundle as active.
///
/// # Errors
/// [`Error::NotConfirmed`] if the folder was replaced, and the old one could not be removed or the gateway did not report the bundle
/// as active. With every other error the folder is unchanged.
pub(crate) fn activate(
    path: &Path,
    into: &Path,
    trust: &Trust,
    gateway: &GatewayArgs,
    now: EpochMs,
) -> Result<Activated, Error> {
    let client = gateway.client()?;
    let files = source::read(path)?;
    let before = client.as_ref().map(gateway::Gateway::bundles).transpose()?;
    let last = match &before {
        Some(bundles) => bundles.last_activation(),
        // No gateway has activated a folder without a valid manifest.
        None => LastActivation::of_bundle(into).ok(),
    };
    let bundle = verify::verify(files.clone(), trust, last, now)?;
    let failed = |source| Error::Write { path: into.to_owned(), source };
    let old = exchange(&files, into).map_err(failed)?;
    let confirmed = clean_up(&old, into).map_err(failed).and_then(|()| match client.zip(before) {
        Some((client, before)) => {
            client.wait_until_active(bundle.bundle_hash, &before, gateway.timeout()).map(Some)
        }
        None => Ok(None),
    });
    let active = confirmed.map_err(|source| Error::NotConfirmed {
        folder: into.to_owned(),
        hash: bundle.bundle_hash,
        source: Box::new(source),
    })?;
    Ok(Activated { bundle, folder: into.to_owned(), active: active.map(|()| true) })
}

/// Writes the files into a folder beside `into`, then exchanges the two, because a plain rename cannot replace a folder that
/// is not empty. Returns the folder that now has the old bundle, if there was one. After an error `into` is unchanged.
fn exchange(files: &BundleFiles, into: &Path) -> io::Result<PathBuf> {
    let name = into.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let staged = into.with_file_name(format!(".{name}.{}", std::process::id()));
    // Of a run that was killed.
    remove(&staged)?;
    let written = layout::write_all(&staged, files).map_err(io::Error::other);
    let exchanged = written.and_then(|()| {
        if into.is_dir() {
            renameat_with(CWD, &staged, CWD, into, RenameFlags::EXCHANGE).map_err(io::Error::from)
        } else {
            fs::rename(&staged, into)
        }
    });
    if let Err(error) = exchanged {
        remove(&staged)?;
        return Err(error);
    }
    Ok(staged)
}

/// Removes the old bundle, and makes the exchange durable.
fn clean_up(old: &Path, into: &Path) -> io::Result<()> {
    remove(old)?;
    durable::sync_folder_of(into)
}

fn remove(folder: &Path) -> io::Result<()> {
    if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
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
        let replace = || clean_up(&exchange(&files, &into).unwrap(), &into).unwrap();
        replace();
        thread::scope(|scope| {
            let exchanging = scope.spawn(|| {
                for _ in 0..N_EXCHANGES {
                    replace();
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
