//! Why a database could not be opened, and why a write was not made.

use std::path::PathBuf;
use std::sync::Arc;

/// Why [`Database::open`](crate::Database::open) refused. Each displays as one line for an operator; the cause
/// underneath is its source.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The location does not name a file. The location itself is not repeated: it may hold a password.
    #[error("the database is not a SQLite file: {reason}")]
    NotAFile {
        /// What is wrong with the location.
        reason: &'static str,
    },
    /// There is no such file, and the caller did not ask to create it.
    #[error("the database `{}` does not exist", path.display())]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The file or its folder can not be created or written.
    #[error("the database `{}` can not be written", path.display())]
    Unwritable {
        /// The file or folder that refused.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Others than the owner may read or write a file of the database: one that was restored with other permissions.
    #[error("the database file `{0}` has mode {mode:04o}; it must be 0600 or 0400: run `chmod 600 {0}`", path.display())]
    Exposed {
        /// The database, its log, or its lock.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Everybody may put files beside the database.
    #[error("everybody can write the database's folder `{0}` (mode {mode:04o}): run `chmod o-w {0}`", path.display())]
    ExposedFolder {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is no room to open it: SQLite makes files beside it.
    #[error("the disk with the database `{}` is full", path.display())]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// Another process, or another [`Database`](crate::Database) of this one, has it open for writing.
    #[error("the database `{}` is already open in another process", path.display())]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// The file's bytes are not a SQLite database.
    #[error("`{}` is not a SQLite database", path.display())]
    ForeignBytes {
        /// The file.
        path: PathBuf,
    },
    /// The database was made by another program.
    #[error("the database `{}` belongs to another program (application id {found:#010x})", path.display())]
    ForeignApplication {
        /// The database.
        path: PathBuf,
        /// The `application_id` found in it; 0 when it has tables but no owner.
        found: i32,
    },
    /// The database has a migration that this program does not know: a newer release wrote it.
    #[error("the database `{}` has schema version {found}, newer than the {known} this program knows", path.display())]
    ForeignSchema {
        /// The database.
        path: PathBuf,
        /// The first version found that is not known.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// An earlier release wrote the database, and it was opened only to be read.
    #[error(
        "the database `{}` has schema version {found} of {known}: start the gateway once, which brings it up to date",
        path.display()
    )]
    OldSchema {
        /// The database.
        path: PathBuf,
        /// The newest version applied; 0 when there is none.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// A migration applied earlier has another text now.
    #[error("migration {version} of the database `{}` was edited after it was applied", path.display())]
    EditedMigration {
        /// The database.
        path: PathBuf,
        /// The migration that differs.
        version: u32,
    },
    /// The caller's migrations are not numbered 1, 2, 3, … in order.
    #[error("migration {found} stands where {expected} is due")]
    MisnumberedMigration {
        /// The version found.
        found: u32,
        /// The version its position asks for.
        expected: u32,
    },
    /// A migration failed; it left nothing behind.
    #[error("migration {version} of the database `{}` failed", path.display())]
    FailedMigration {
        /// The database.
        path: PathBuf,
        /// The migration that failed.
        version: u32,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The file system does not support what durable commits need (a write-ahead log in shared memory).
    #[error("the database `{}` is on a file system without durable commits (journal mode `{found}`)", path.display())]
    NotDurable {
        /// The database.
        path: PathBuf,
        /// The journal mode SQLite fell back to.
        found: String,
    },
    /// SQLite failed for another reason: a damaged file, no memory, no threads.
    #[error("the database `{}` can not be opened", path.display())]
    Failed {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
}

/// Why [`Database::write`](crate::Database::write) has no output to give.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The job failed, alone in its transaction. Nothing of it was written.
    #[error("the write failed")]
    Job(#[source] Arc<sqlx::Error>),
    /// The job panicked, alone in its transaction. Nothing of it was written.
    #[error("the write panicked")]
    Panicked,
    /// The writer could not begin a transaction. Nothing was written; trying again later may help.
    #[error("the database is not available for writing")]
    Unavailable(#[source] Arc<sqlx::Error>),
    /// The COMMIT failed. It is rolled back, but may be found in the log if the process dies before the next
    /// commit: read before trying again.
    #[error("the commit failed")]
    Commit(#[source] Arc<sqlx::Error>),
    /// The database was closed before the job was queued. Nothing was written.
    #[error("the database is closed")]
    Closed,
    /// The writer ended without an answer. The job may or may not be durable: read before trying again.
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
