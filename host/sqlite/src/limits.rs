//! The limits of this crate, with reasons.

use std::time::Duration;

/// Jobs in one transaction. With more, sharing the sync gains little, and the first job would wait longer for the last.
pub const JOBS_PER_COMMIT_MAX: usize = 256;

/// How long the writer waits for more jobs while callers write at the same time: jobs that share a transaction share its sync, and the
/// writer's thread is woken once for all of them. One caller alone never waits.
pub(crate) const GATHERED_FOR: Duration = Duration::from_millis(1);

/// Jobs in the queue before [`Database::write`](crate::Database::write) itself waits: four full batches, so that a slow
/// disk causes latency instead of memory use.
pub const JOBS_QUEUED_MAX: usize = 4 * JOBS_PER_COMMIT_MAX;

/// The default number of read-only connections. Each one is an operating-system thread.
pub const READERS_DEFAULT: u32 = 4;

/// How long a statement waits for another connection's lock, such as that of an operator's shell.
pub const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// How long a read waits for a free connection before it fails.
pub const READER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Prepared statements cached by one connection: more than any crate of this workspace has.
pub(crate) const STATEMENTS_CACHED_MAX: usize = 256;

/// Page cache of the writer's connection in KiB. Holds the hot end of every index, so that a transition reads no disk.
pub(crate) const WRITER_CACHE_KIB: u32 = 16 * 1024;

/// How long after a commit the log is moved into the database file, beside the writer. That costs two syncs and writes each changed page
/// once, and an operation is rewritten for as long as it lives: the longer, the less is written, and the longer the log.
pub(crate) const CHECKPOINT_EVERY: Duration = Duration::from_millis(300);

/// Pages of log (4 KiB each) after which the writer moves it by itself, while its callers wait: 32 MiB, which the log reaches only while
/// reads keep it from starting over.
pub(crate) const CHECKPOINT_PAGES: u32 = 8 * 1024;

/// The size in bytes to which a checkpoint cuts the log back, if a long read has let it grow.
pub(crate) const LOG_BYTES_KEPT_MAX: u32 = 64 * 1024 * 1024;
