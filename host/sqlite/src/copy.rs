//! Copies of a database: [`Reader::copy_to`] makes one while another process writes, [`restore`] puts one in the database's place.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::connect::{Link, log_unclosed};
use crate::error::OpenError;
use crate::files::{self, PARTIAL, REPLACED, SIDE_FILES, folder_of, with_suffix};
use crate::options::Options;
use crate::reader::Reader;

/// Interval between two calls of the caller's function for progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Why a copy was not made, or not put in place.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages show what the fields are")]
pub enum CopyError {
    /// The database cannot be opened, or another process writes it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is a file already, which may be another copy.
    #[error("`{}` exists already", path.display())]
    Exists { path: PathBuf },
    /// The copy has a log beside it: it was made of the files of a running program, and is in pieces.
    #[error("the copy `{}` has a log beside it, and only both together are the database: make copies with `backup`", path.display())]
    HasLog { path: PathBuf },
    /// A file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    /// SQLite could not write the copy.
    #[error("the copy `{}` cannot be written", path.display())]
    Failed { path: PathBuf, source: sqlx::Error },
}

impl Reader {
    /// Writes the database as of now to a new file with mode 0600, and syncs it. Until it is complete, its name ends with `.partial`.
    /// `on_progress` gets the bytes written so far, and about how many there will be.
    ///
    /// This is one long read: the writer's log grows meanwhile.
    pub async fn copy_to(&self, to: &Path, mut on_progress: impl FnMut(u64, u64)) -> Result<(), CopyError> {
        if let Some(path) = own_files(to).find(|path| fs::symlink_metadata(path).is_ok()) {
            return Err(CopyError::Exists { path });
        }
        let partial = with_suffix(to, PARTIAL);
        create_private(&partial)?;
        let failed = |source| CopyError::Failed { path: partial.clone(), source };
        let copied = async {
            let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
            let mut conn = self.readers().acquire().await.map_err(failed)?;
            let n_bytes: i64 = conn.value(sql, &[]).await.map_err(failed)?;
            let name = partial.to_str().ok_or(CopyError::Unwritable {
                path: partial.clone(),
                source: io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8"),
            })?;
            let name = [name.into()];
            let vacuum = conn.run("VACUUM INTO ?1", &name);
            let (mut vacuum, mut ticks) = (std::pin::pin!(vacuum), interval(PROGRESS_EVERY));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                tokio::select! {
                    copied = &mut vacuum => break copied.map_err(failed)?,
                    _ = ticks.tick() => {
                        let n_written = fs::metadata(&partial).map_or(0, |metadata| metadata.len());
                        on_progress(n_written, n_bytes.unsigned_abs());
                    }
                };
            }
            sync(&partial)?;
            // Unlike a rename, this does not replace a file that appeared meanwhile. If the process is killed before the first name is
            // removed, the process that opens the copy removes it.
            fs::hard_link(&partial, to).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => CopyError::Exists { path: to.to_owned() },
                _ => unwritable(to, source),
            })
        };
        let copied = copied.await;
        let removed = fs::remove_file(&partial).map_err(|source| unwritable(&partial, source));
        copied.and(removed)?;
        sync(folder_of(to))
    }
}

/// Puts a copy in the place of the database, which no process may have open. Returns the name under which the database that was there
/// is kept, if there was one. The copy is read and stays.
///
/// A crash leaves the old database or the new one. The old one can have a second name then, and its log beside that name if the log could not be
/// written into it, because it is damaged: the next process that locks the database removes the name and brings the log back.
///
/// # Errors
///
/// [`CopyError`]. The database is as it was, unless its files could not be renamed.
pub async fn restore(options: Options, copy: &Path) -> Result<Option<PathBuf>, CopyError> {
    let copy = files::existing(copy)?;
    files::check_header(&copy)?;
    if SIDE_FILES.iter().any(|suffix| {
        fs::metadata(with_suffix(&copy, suffix)).is_ok_and(|file| file.len() > 0 && *suffix != "-shm")
    }) {
        return Err(CopyError::HasLog { path: copy });
    }
    let existed = options.path.exists();
    let folder = folder_of(&options.path);
    files::create_folder(folder).map_err(|source| unwritable(folder, source))?;
    let path = fs::canonicalize(folder).map_err(|source| unwritable(folder, source))?;
    let path = match options.path.file_name() {
        Some(_) if existed => files::existing(&options.path)?,
        Some(name) => path.join(name),
        None => return Err(OpenError::NotAFile { reason: "it names a folder" }.into()),
    };
    let _lock = files::lock(&path)?;
    if existed {
        files::remove_second_name(&path)?;
    }
    let new = with_suffix(&path, ".restored");
    // Left behind by a restore that was interrupted: the lock is ours.
    let _there_was_none = fs::remove_file(&new);
    create_private(&new)?;
    fs::copy(&copy, &new).map_err(|source| unwritable(&new, source))?;
    sync(&new)?;
    let kept = keep(&Link::new(path.clone(), &options), existed).await?;
    fs::rename(&new, &path).map_err(|source| unwritable(&path, source))?;
    sync(folder_of(&path))?;
    Ok(existed.then_some(kept))
}

/// Gives the files of a database another name, by which it can be opened again. The database keeps its present name too. A log without
/// its database is renamed too: SQLite would write it into the copy.
async fn keep(link: &Link, exists: bool) -> Result<PathBuf, CopyError> {
    let is_free = |name: &PathBuf| own_files(name).all(|path| fs::symlink_metadata(path).is_err());
    let name = |n: u32| with_suffix(&link.path, &format!("{REPLACED}{n}"));
    let kept = (1..).map(name).find(is_free);
    let kept = kept.ok_or_else(|| CopyError::Exists { path: link.path.clone() })?;
    if exists {
        // A damaged database is kept with its log.
        if let Ok(mut conn) = link.writer() {
            let _kept_with_its_log = conn.run("PRAGMA wal_checkpoint(TRUNCATE)", &[]).await;
            log_unclosed(conn.end().await);
        }
        fs::hard_link(&link.path, &kept).map_err(|source| unwritable(&kept, source))?;
    }
    for suffix in SIDE_FILES {
        let (from, to) = (with_suffix(&link.path, suffix), with_suffix(&kept, suffix));
        match fs::rename(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(unwritable(&to, source)),
        }
    }
    Ok(kept)
}

fn create_private(path: &Path) -> Result<(), CopyError> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.map(drop).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CopyError::Exists { path: path.to_owned() },
        _ => unwritable(path, source),
    })
}

fn sync(path: &Path) -> Result<(), CopyError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|source| unwritable(path, source))
}

/// The database and its side files.
fn own_files(path: &Path) -> impl Iterator<Item = PathBuf> {
    [""].into_iter().chain(SIDE_FILES).map(|suffix| with_suffix(path, suffix))
}

fn unwritable(path: &Path, source: io::Error) -> CopyError {
    CopyError::Unwritable { path: path.to_owned(), source }
}
