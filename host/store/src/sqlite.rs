//! The store on SQLite: one file, one writer that commits waiting jobs together, and read-only connections.

mod checked;
mod commit;
mod decision;
mod decisions;
mod frontier;
mod log;
mod policies;
mod previews;
mod quota;
mod read;
pub(crate) mod snapshot;
mod spending;
#[cfg(test)]
mod tests;

use crate::cache::LruCache;
use crate::encode::{self, TokenRow};
use crate::error::{OpenError, unwritten};
use async_trait::async_trait;
use checked::Damaged;
use commit::CommitJob;
use decision::{DecisionJob, DecisionWithTokenJob};
pub use decisions::Decisions;
use frontier::LogFrontier;
use gateway_domain::ids::{KeyId, OperationId};
use gateway_domain::key::CustodyKey;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    Commit, CommitOperations, Committed, DecisionRecord, KeyChange, PreviewRecord, RateLimited, Record,
};
use gateway_engine::{Token, Unavailable};
use gateway_sqlite::{ApplicationId, Database, Job, Migration, Options};
use previews::Previews;
use sqlx::SqliteConnection;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a database file as the gateway's.
const APPLICATION_ID: ApplicationId = ApplicationId::new(*b"OpGw");

const MIGRATIONS: &[Migration] = &[
    migration(1, "operations", include_str!("../migrations/sqlite/0001_operations.sql")),
    migration(2, "key_operations", include_str!("../migrations/sqlite/0002_key_operations.sql")),
    migration(3, "policy_bundles", include_str!("../migrations/sqlite/0003_policy_bundles.sql")),
    migration(4, "spending", include_str!("../migrations/sqlite/0004_spending.sql")),
    migration(5, "decision_inputs", include_str!("../migrations/sqlite/0005_decision_inputs.sql")),
    migration(6, "event_salts", include_str!("../migrations/sqlite/0006_event_salts.sql")),
    migration(7, "row_hashes", include_str!("../migrations/sqlite/0007_row_hashes.sql")),
    migration(8, "key_quorums", include_str!("../migrations/sqlite/0008_key_quorums.sql")),
    migration(9, "admission_budgets", include_str!("../migrations/sqlite/0009_admission_budgets.sql")),
    migration(10, "logged_activations", include_str!("../migrations/sqlite/0010_logged_activations.sql")),
];

const fn migration(version: u32, name: &'static str, sql: &'static str) -> Migration {
    Migration { version, name, sql }
}

const DECISION_UNWRITTEN: &str = "a policy decision could not be written";

/// The index of a table's next row. Jobs run one after another, so each sees the rows of the ones before.
async fn next_index(conn: &mut SqliteConnection, table: &'static str) -> Result<i64, sqlx::Error> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    let last: Option<i64> = sqlx::query_scalar(sql).bind(table).fetch_optional(conn).await?;
    Ok(last.unwrap_or_default().saturating_add(1))
}

/// Durable commits and reads in one SQLite file, which this process alone writes. Dropping it lets queued commits finish;
/// [`close`](Self::close) waits for them.
#[derive(Debug)]
pub struct Store {
    database: Arc<Database<LogFrontier>>,
    previews: Arc<Previews>,
    n_statements: Arc<AtomicU64>,
    operations: LruCache<OperationId, Record>,
    keys: LruCache<KeyId, Option<CustodyKey>>,
    damaged: Damaged,
}

/// Totals of the writes since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits run in a transaction, conflicts included.
    pub jobs: u64,
    /// Transactions committed; several jobs may share one.
    pub transactions: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// SQL statements run for jobs; BEGIN and COMMIT are not counted.
    pub statements: u64,
}

impl Store {
    /// Opens the database at `location` (`sqlite://path`, `sqlite:path` or a path) and brings its schema up to date.
    /// Creates a missing file, and its folder.
    ///
    /// # Errors
    /// [`OpenError`]: the location is not a database of this program, is in use, or cannot be written durably.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        let options = Options::at(location, APPLICATION_ID, MIGRATIONS)?.create();
        Ok(Self {
            database: Arc::new(Database::open(options).await?),
            previews: Arc::default(),
            n_statements: Arc::default(),
            operations: LruCache::new(),
            keys: LruCache::new(),
            damaged: Damaged::default(),
        })
    }

    /// Whether a database file exists at `location`. Creates nothing.
    ///
    /// # Errors
    /// [`OpenError`]: the location does not name a database file.
    pub fn exists(location: &str) -> Result<bool, OpenError> {
        Ok(Options::at(location, APPLICATION_ID, MIGRATIONS)?.exists())
    }

    /// The totals of the writes so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let written = self.database.counters();
        Counters {
            jobs: written.jobs,
            transactions: written.commits,
            rollbacks: written.rollbacks,
            statements: self.n_statements.load(Ordering::Relaxed),
        }
    }

    /// Finishes the queued commits, then releases the database to other processes. Later calls return `Unavailable`.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// Runs a job. `what` is the text of the error if it fails.
    async fn write<J: Job<State = LogFrontier>>(
        &self,
        job: J,
        what: impl Display,
    ) -> Result<J::Output, Unavailable> {
        self.database.write(job).await.map_err(|error| unwritten(&self.database, what, &error))
    }

    /// Writes a commit, whose job returns the log's root, and updates the caches.
    async fn commit_and_cache(
        &self,
        commit: Commit,
        token: Option<TokenRow>,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        let rows = encode::commit(&commit)?;
        let record_root = rows.operation.record_root;
        let job = CommitJob { rows, token, n_statements: Arc::clone(&self.n_statements) };
        let Commit { operation, keys, .. } = commit;
        let what = format!("operation `{}` could not be written", operation.id);
        match self.write(job, what).await {
            Ok(RateLimited::Written { written: ledger_root, full_at_us }) => {
                let record = Record { operation, record_root, ledger_root };
                self.operations.update(record.operation.id, record.clone());
                for KeyChange { key, .. } in keys {
                    self.keys.update(key.key_id, Some(key));
                }
                Ok(RateLimited::Written { written: Box::new(record), full_at_us })
            }
            // Nothing was written, or the result is unknown: the next read must go to the database.
            unwritten => {
                self.operations.invalidate(operation.id);
                for KeyChange { key, .. } in keys {
                    self.keys.invalidate(key.key_id);
                }
                match unwritten? {
                    RateLimited::Exhausted { full_at_us } => Ok(RateLimited::Exhausted { full_at_us }),
                    RateLimited::Conflict | RateLimited::Written { .. } => Ok(RateLimited::Conflict),
                }
            }
        }
    }
}

#[async_trait]
impl CommitOperations for Store {
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable> {
        match self.commit_and_cache(commit, None).await? {
            RateLimited::Written { written, .. } => Ok(Committed::Written(written)),
            RateLimited::Conflict | RateLimited::Exhausted { .. } => Ok(Committed::Conflict),
        }
    }

    async fn decision_record(&self, record: DecisionRecord) -> Result<(), Unavailable> {
        let row = encode::decision(&record)?;
        let job = DecisionJob { row, n_statements: Arc::clone(&self.n_statements) };
        self.write(job, DECISION_UNWRITTEN).await
    }

    async fn commit_with_token(
        &self,
        commit: Commit,
        token: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        self.commit_and_cache(commit, Some(encode::token(&token))).await
    }

    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        token: Token,
    ) -> Result<RateLimited<()>, Unavailable> {
        let row = encode::decision(&record)?;
        let decision = DecisionJob { row, n_statements: Arc::clone(&self.n_statements) };
        let job = DecisionWithTokenJob { decision, token: encode::token(&token) };
        self.write(job, DECISION_UNWRITTEN).await
    }

    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable> {
        let row = encode::preview(&record)?;
        self.previews.write(&self.database, &self.n_statements, row, n_kept).await
    }

    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable> {
        policies::probe_write(&self.database, at).await
    }
}
