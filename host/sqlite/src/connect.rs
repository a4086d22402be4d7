//! Connections, the settings that make a commit durable, and the meaning of SQLite's result codes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::OpenFlags;
use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

use crate::calls::fault;
use crate::connection::Connection;
use crate::error::OpenError;
use crate::files::{self, folder_of};
use crate::lease::{Lease, ReaderThread, Seat};
use crate::limits::{CHECKPOINT_PAGES, LOG_BYTES_KEPT_MAX, STATEMENTS_CACHED_MAX, WRITER_CACHE_KIB};
use crate::options::Options;

/// The path and settings of one database, for connecting and reconnecting.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) path: PathBuf,
    secure_delete: bool,
    busy_timeout: Duration,
}

impl Link {
    pub(crate) fn new(path: PathBuf, options: &Options) -> Self {
        Self { path, secure_delete: options.secure_delete, busy_timeout: options.busy_timeout }
    }

    /// A connection that changes nothing by connecting, to inspect a file that may belong to another program.
    pub(crate) fn probe(&self) -> Result<Connection, sqlx::Error> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map(Connection::here).map_err(fault)
    }

    /// A read-only connection on a thread of its own.
    pub(crate) async fn reader_on_thread(&self) -> Result<Seat, sqlx::Error> {
        let link = self.clone();
        ReaderThread::start(move || link.reader()).await.map(Seat::OnThread)
    }

    /// A read-only connection for its callers' threads.
    pub(crate) fn reader_at_hand(&self) -> Result<Seat, sqlx::Error> {
        self.reader().map(Seat::at_hand)
    }

    fn reader(&self) -> Result<rusqlite::Connection, sqlx::Error> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(fault)
    }

    /// A connection that migrates, with all durability settings.
    pub(crate) async fn migrator(&self) -> Result<SqliteConnection, sqlx::Error> {
        let settings = self.durability();
        let plain = SqliteConnectOptions::new()
            .filename(&self.path)
            .foreign_keys(true)
            .busy_timeout(self.busy_timeout)
            .disable_statement_logging();
        settings
            .iter()
            .fold(plain, |options, (name, value)| options.pragma(*name, value.clone()))
            .connect()
            .await
    }

    /// The connection that writes, with all durability settings, for the calling thread.
    pub(crate) fn writer(&self) -> Result<Connection, sqlx::Error> {
        let open = || {
            let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            for (name, value) in self.durability() {
                conn.pragma_update(None, name, value)?;
            }
            Ok(conn)
        };
        open().map(Connection::here).map_err(fault)
    }

    fn connect(&self, mode: OpenFlags) -> Result<rusqlite::Connection, rusqlite::Error> {
        let conn = rusqlite::Connection::open_with_flags(&self.path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        conn.busy_timeout(self.busy_timeout)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
        conn.pragma_update(None, "foreign_keys", "ON")?;
        Ok(conn)
    }

    fn durability(&self) -> [(&'static str, String); 8] {
        [
            ("journal_mode", "WAL".to_owned()),
            ("synchronous", "FULL".to_owned()),
            // On macOS fsync alone leaves data in the drive's cache; elsewhere these two do nothing.
            ("fullfsync", "ON".to_owned()),
            ("checkpoint_fullfsync", "ON".to_owned()),
            ("secure_delete", if self.secure_delete { "ON" } else { "OFF" }.to_owned()),
            ("cache_size", format!("-{WRITER_CACHE_KIB}")),
            ("wal_autocheckpoint", CHECKPOINT_PAGES.to_string()),
            ("journal_size_limit", LOG_BYTES_KEPT_MAX.to_string()),
        ]
    }

    /// A read-only connection with an empty page cache, so that it reads what is in the files now.
    pub(crate) async fn fresh_reader(&self) -> Result<Connection, sqlx::Error> {
        self.reader_on_thread().await.map(Lease::unshared).map(Connection::lent)
    }

    pub(crate) fn failed(&self, source: sqlx::Error) -> OpenError {
        failed(&self.path, source)
    }
}

/// Checks that the durability settings took effect: SQLite does not report a refused journal mode as an error, but
/// keeps the old one.
pub(crate) async fn check_durable(link: &Link, conn: &mut Connection) -> Result<(), OpenError> {
    let journal: String = conn.value("PRAGMA journal_mode", &[]).await.map_err(|e| link.failed(e))?;
    let synchronous: i64 = conn.value("PRAGMA synchronous", &[]).await.map_err(|e| link.failed(e))?;
    // 2 is FULL.
    if journal == "wal" && synchronous == 2 {
        return Ok(());
    }
    Err(OpenError::NotDurable { path: link.path.clone(), found: journal })
}

/// Logs that a connection could not be closed.
pub(crate) fn log_unclosed(closed: Result<(), sqlx::Error>) {
    if let Err(error) = closed {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a database connection did not close cleanly"
        );
    }
}

/// Maps the primary result codes (sqlite.org/rescode.html) that an operator can act on to their own variants.
fn failed(path: &Path, source: sqlx::Error) -> OpenError {
    const READONLY: i32 = 8;
    const CANTOPEN: i32 = 14;
    const NOTADB: i32 = 26;
    if is_disk_full(&source, path) {
        return OpenError::DiskFull { path: path.to_owned() };
    }
    let path = path.to_owned();
    match primary_code(&source) {
        Some(NOTADB) => OpenError::ForeignBytes { path },
        Some(READONLY | CANTOPEN) => OpenError::Unwritable { path, source: std::io::Error::other(source) },
        _ => OpenError::Failed { path, source },
    }
}

/// The free space, in bytes, below which a disk counts as full. SQLite's shared memory file grows by half as much,
/// and a small commit needs some pages.
const ROOM_BYTES_MIN: u64 = 64 * 1024;

/// Whether a write failed because the disk is full. SQLite may report that as an I/O error, for a sync or for a side
/// file that cannot grow; then the file system's free space decides.
pub(crate) fn is_disk_full(error: &sqlx::Error, path: &Path) -> bool {
    const IOERR: i32 = 10;
    const FULL: i32 = 13;
    const CANTOPEN: i32 = 14;
    match primary_code(error) {
        Some(FULL) => true,
        Some(IOERR | CANTOPEN) => !has_room(path),
        Some(_) | None => false,
    }
}

/// Checks that this process could write the database now. Writes nothing.
pub fn check_writable(options: &Options) -> Result<(), OpenError> {
    // SQLite's side files are where the file is, not where a symbolic link to it is.
    let path = &*files::existing(&options.path)?;
    for path in [path, folder_of(path)] {
        let unwritable = |error: Errno| OpenError::Unwritable { path: path.to_owned(), source: error.into() };
        access(path, Access::WRITE_OK).map_err(unwritable)?;
    }
    if has_room(path) { Ok(()) } else { Err(OpenError::DiskFull { path: path.to_owned() }) }
}

/// Whether the file system has free space, or does not report it.
fn has_room(path: &Path) -> bool {
    statvfs(path).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= ROOM_BYTES_MIN)
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ApplicationId;

    #[test]
    fn disk_without_room_or_rights_is_not_writable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("database");
        std::fs::write(&file, "").unwrap();
        let check = |path: &Path| check_writable(&Options::at_path(path, ApplicationId::new(*b"test"), &[]));
        assert!(check(&file).is_ok());
        let missing = check(&folder.path().join("other")).unwrap_err();
        assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
        // Root may write every folder, but no file system that never has room.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/proc/self/comm", &link).unwrap();
        let full = check(&link).unwrap_err();
        assert!(!full.to_string().contains("link"), "{full}");
        // A file system that never has room, and which root may write too.
        let full = check(Path::new("/proc/self/comm")).unwrap_err();
        assert!(matches!(full, OpenError::DiskFull { .. } | OpenError::Unwritable { .. }), "{full}");
    }
}
