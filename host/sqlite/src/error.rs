//! Errors of opening a database, and of a write.

use std::path::PathBuf;
use std::sync::Arc;

/// Why [`Database::open`](crate::Database::open) failed. Each displays as one line for an operator, without its source.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages show what the fields are")]
pub enum OpenError {
    /// The location does not name a file. The message does not quote it, because it may hold a password.
    #[error("the database is not a SQLite file: {reason}")]
    NotAFile { reason: &'static str },
    /// The file does not exist, and the options do not ask to create it.
    #[error("the database `{}` does not exist", path.display())]
    Missing { path: PathBuf },
    /// The file or its folder cannot be created or written.
    #[error("the database `{}` cannot be written", path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
    /// Other users may read or write a file of the database, for example one restored with other permissions.
    #[error("the database file `{0}` has mode {mode:04o}; it must be 0600 or 0400: run `chmod 600 {0}`", path.display())]
    Exposed { path: PathBuf, mode: u32 },
    /// Every user may create files beside the database.
    #[error("every user can write the database's folder `{0}` (mode {mode:04o}): choose a folder that only its owner and group write, or run `chmod o-w {0}`", path.display())]
    ExposedFolder { path: PathBuf, mode: u32 },
    /// The disk is full: SQLite could not create its side files.
    #[error("the disk with the database `{}` is full", path.display())]
    DiskFull { path: PathBuf },
    /// Another process, or another [`Database`](crate::Database) of this one, has it open for writing.
    #[error("the database `{}` is already open in another process", path.display())]
    InUse { path: PathBuf },
    /// The file system cannot lock files, such as NFS: two processes could write the database at once.
    #[error("the file system of the database `{}` cannot lock files: keep it on a local disk", path.display())]
    NoLocks { path: PathBuf, source: std::io::Error },
    /// The file has another name, a hard link.
    #[error("the database `{0}` has {n_names} names (hard links), each of which would have a log of its own: keep one of them, or copy the file", path.display())]
    OtherName { path: PathBuf, n_names: u64 },
    /// The file's bytes are not a SQLite database.
    #[error("`{}` is not a SQLite database", path.display())]
    ForeignBytes { path: PathBuf },
    /// Another program created the database.
    #[error("the database `{}` belongs to another program (application id {found:#010x})", path.display())]
    ForeignApplication {
        path: PathBuf,
        /// The `application_id` found in it; 0 if it has tables but no id.
        found: i32,
    },
    /// The database has a migration that this program does not have: a newer release wrote it.
    #[error("the database `{}` has schema version {found}, newer than the {known} this program knows", path.display())]
    ForeignSchema { path: PathBuf, found: u32, known: u32 },
    /// An earlier release wrote the database, and it was opened read-only, without migrating.
    #[error(
        "the database `{}` has schema version {found} of {known}: start the gateway once, which brings it up to date",
        path.display()
    )]
    OldSchema {
        path: PathBuf,
        /// The newest applied version; 0 if no migration was applied.
        found: u32,
        known: u32,
    },
    /// The text of an applied migration has changed.
    #[error("migration {version} of the database `{}` was edited after it was applied", path.display())]
    EditedMigration { path: PathBuf, version: u32 },
    /// The caller's migrations are not numbered 1, 2, 3, … in order.
    #[error("found migration {found} where {expected} was expected")]
    MisnumberedMigration { found: u32, expected: u32 },
    /// A migration failed and was rolled back.
    #[error("migration {version} of the database `{}` failed", path.display())]
    FailedMigration { path: PathBuf, version: u32, source: sqlx::Error },
    /// The file system does not support a write-ahead log (it needs shared memory), on which durable commits depend.
    #[error("the database `{}` is on a file system without durable commits (journal mode `{found}`)", path.display())]
    NotDurable {
        path: PathBuf,
        /// The journal mode SQLite fell back to.
        found: String,
    },
    /// SQLite failed for another reason: a damaged file, no memory, no threads.
    #[error("the database `{}` cannot be opened", path.display())]
    Failed { path: PathBuf, source: sqlx::Error },
}

/// Why [`Database::write`](crate::Database::write) failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The job failed, alone in its transaction. Nothing was written.
    #[error("the write failed")]
    Job(#[source] Arc<sqlx::Error>),
    /// The job panicked, alone in its transaction. Nothing was written.
    #[error("the write panicked")]
    Panicked,
    /// The writer could not begin a transaction. Nothing was written; a later retry may succeed.
    #[error("the database is not available for writing")]
    Unavailable(#[source] Arc<sqlx::Error>),
    /// The COMMIT failed and is rolled back. If the process dies before the next commit, the write may still be found in
    /// the log: read before retrying.
    #[error("the commit failed")]
    Commit(#[source] Arc<sqlx::Error>),
    /// The database was closed before the job was queued. Nothing was written.
    #[error("the database is closed")]
    Closed,
    /// The writer ended without an answer. The job may or may not be durable: read before retrying.
    #[error("the writer ended before it answered")]
    Lost,
}

impl WriteError {
    /// Whether it is certain that nothing was written.
    pub fn wrote_nothing(&self) -> bool {
        match self {
            Self::Job(_) | Self::Panicked | Self::Unavailable(_) | Self::Closed => true,
            Self::Commit(_) | Self::Lost => false,
        }
    }
}
