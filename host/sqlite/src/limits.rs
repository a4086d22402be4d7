//! Every limit of this crate and its reason.

use std::time::Duration;

/// Jobs in one transaction: beyond this the cost of a sync is spread thin enough, and the first job of the
/// batch should not wait longer for the last.
pub const JOBS_PER_COMMIT_MAX: usize = 256;

/// Jobs waiting for the writer before [`Database::write`](crate::Database::write) itself waits: four full
/// batches, so that a slow disk shows as latency at the callers and not as memory.
pub const JOBS_QUEUED_MAX: usize = 4 * JOBS_PER_COMMIT_MAX;

/// Read-only connections unless the caller asks otherwise. Each one is an operating-system thread.
pub const READERS_DEFAULT: u32 = 4;

/// How long a statement waits for a lock held by another connection, such as an operator's shell.
pub const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// How long a read waits for a free connection before it fails.
pub const READER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Prepared statements kept by one connection: more than any one crate of this workspace has.
pub(crate) const STATEMENTS_CACHED_MAX: usize = 256;

/// Page cache of the writer's connection in KiB: the hot end of every index, so that a transition reads no disk.
pub(crate) const WRITER_CACHE_KIB: u32 = 16 * 1024;

/// Pages of log (4 KiB each) after which its content is moved into the database, which costs two syncs and writes each
/// changed page once: 32 MiB instead of SQLite's 4, because operations are some kilobytes and are rewritten ten times.
pub(crate) const CHECKPOINT_PAGES: u32 = 8 * 1024;

/// The log is cut back to this after a checkpoint, should a long read have let it grow.
pub(crate) const LOG_BYTES_KEPT_MAX: u32 = 64 * 1024 * 1024;
