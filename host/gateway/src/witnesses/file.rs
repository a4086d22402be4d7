//! The file with the newest checkpoint that a quorum of witnesses cosigned. It is outside the database, so it shows that the database is
//! an older copy, or that its log was changed.

use gateway_domain::error_chain;
use gateway_domain::log::SignedCheckpoint;
use gateway_domain::log::note::NOTE_BYTES_MAX;
use gateway_seal::durable;
use gateway_service::StartError;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Reads the file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<SignedCheckpoint>, StartError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path, error_chain(&error))),
    };
    let mut text = String::new();
    // One byte more than a note may have, so that a longer file is an error of the note.
    let bytes_max = u64::try_from(NOTE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.take(bytes_max).read_to_string(&mut text).map_err(|error| unusable(path, error_chain(&error)))?;
    let damaged = |error| {
        let why = error_chain(&error);
        unusable(
            path,
            format!(
                "it is damaged ({why}): put back what was there, which shows whether the database is complete"
            ),
        )
    };
    text.parse().map(Some).map_err(damaged)
}

/// An error about the file, in one line.
pub(crate) fn unusable(path: &Path, why: impl Into<String>) -> StartError {
    StartError::new(format!("witnessed checkpoint `{}`", path.display()), why.into())
}

/// Replaces the file, so that a crash leaves the old one or the new one. Returns once that is on disk.
pub(crate) fn replace(path: &Path, checkpoint: &SignedCheckpoint) -> io::Result<()> {
    let next = path.with_added_extension("next");
    write(OpenOptions::new().create(true).truncate(true), &next, checkpoint)?;
    durable::rename(&next, path)
}

/// Writes a checkpoint that was given up to a new file beside `path`, which stays as evidence; returns its path.
pub(crate) fn put_aside(path: &Path, checkpoint: &SignedCheckpoint) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let aside = path.with_added_extension(format!("lost-{number}"));
        match write(OpenOptions::new().create_new(true), &aside, checkpoint) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            written => return written.and_then(|()| durable::sync_folder_of(path)).map(|()| aside),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn write(options: &mut OpenOptions, path: &Path, checkpoint: &SignedCheckpoint) -> io::Result<()> {
    let mut file = options.write(true).mode(0o600).open(path)?;
    file.write_all(checkpoint.to_string().as_bytes())?;
    file.sync_all()
}
