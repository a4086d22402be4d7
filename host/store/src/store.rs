//! The store: the engine's ports on a database, and the records that it caches.

mod cache;
mod checked;
pub(crate) mod lists;
pub(crate) mod log;
pub(crate) mod policies;
mod previews;
pub(crate) mod read;
pub(crate) mod retention;
mod webhooks;
pub(crate) mod work;

use crate::change::{CommitWrite, Counters, DecisionWrite, InTurn};
use crate::database::{Database, OpenError, is_postgres};
use crate::postgres::{Peers, Presence};
use crate::record::encode;
use crate::record::finding::Damaged;
use crate::sql::row::instant;
use crate::store::cache::LruCache;
use crate::store::previews::Previews;
use crate::{postgres, sqlite};
use async_trait::async_trait;
use gateway_domain::ids::{KeyId, OperationId};
use gateway_domain::key::CustodyKey;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    Commit, CommitOperations, Committed, DecisionRecord, Deferral, KeyChange, PreviewRecord, RateLimited,
    Record,
};
use gateway_engine::{Token, Unavailable};
use metrics::histogram;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;

/// Durable commits and reads in one SQLite file, which this process alone writes, or in a PostgreSQL database, which other
/// replicas write too. Dropping it lets queued commits finish; [`close`](Self::close) waits for them.
#[derive(Debug)]
pub struct Store {
    pub(crate) database: Arc<Database>,
    previews: Arc<Previews>,
    pub(crate) operations: LruCache<OperationId, Record>,
    pub(crate) keys: LruCache<KeyId, Option<CustodyKey>>,
    pub(crate) damaged: Damaged,
}

/// The histogram of this crate.
pub const HISTOGRAMS: &[(&str, &str)] =
    &[(DURATION, "Time until a commit was durable, with waiting for others in its transaction, by result")];

const DURATION: &str = "operation_gateway_store_commit_duration_seconds";

impl Store {
    /// Opens the database at `location` and brings its schema up to date. The location is `postgres://user@host/database`, or a
    /// file (`sqlite://path`, `sqlite:path` or a path); a missing file is created, with its folder.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        Self::open_with(location, postgres::CONNECTIONS).await
    }

    /// As [`Self::open`], with at most `n_connections` to a server, at least two; a file ignores it.
    ///
    /// # Errors
    /// As [`Self::open`], and when the server accepts fewer.
    pub async fn open_with(location: &str, n_connections: u32) -> Result<Self, OpenError> {
        Ok(Self::of(Database::open(location, n_connections).await?))
    }

    /// Opens a database for reading only, which a gateway may have open: every write fails.
    pub async fn read_only(location: &str) -> Result<Self, OpenError> {
        Ok(Self::of(Database::read_only(location).await?))
    }

    fn of(database: Database) -> Self {
        Self {
            database: Arc::new(database),
            previews: Arc::default(),
            operations: LruCache::new(),
            keys: LruCache::new(),
            damaged: Damaged::default(),
        }
    }

    /// Whether a database file exists at `location`; true for a database on a server. Creates nothing.
    pub fn exists(location: &str) -> Result<bool, OpenError> {
        if is_postgres(location) { Ok(true) } else { Ok(sqlite::exists(location)?) }
    }

    /// Connects to the database's server once, if it has one, and changes nothing.
    pub async fn reach(location: &str) -> Result<(), OpenError> {
        if is_postgres(location) {
            postgres::reach(location).await?;
        }
        Ok(())
    }

    /// Checks a database that exists as a start does, but changes nothing. Gateways may have it open. Returns the clock of its server,
    /// if it has one.
    ///
    /// # Errors
    /// [`OpenError`], as [`Self::open`], and for a schema that is not up to date.
    pub async fn check(location: &str) -> Result<Option<EpochMs>, OpenError> {
        if is_postgres(location) {
            return Ok(Some(postgres::check(location).await?));
        }
        sqlite::check(location).await?;
        Ok(None)
    }

    /// Open connections to a server that read, and how many of them are idle. `None` for a file.
    #[must_use]
    pub fn readers(&self) -> Option<(u32, u32)> {
        self.database.pool().n_open_and_idle()
    }

    /// The totals of the writes so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.database.counters()
    }

    /// Says to the other replicas of the database that this one is here, for twenty seconds. `may_write` gets what they said; if it
    /// returns false, or the twenty seconds are over, this replica's writes fail until it has met the others again. A file has one
    /// process, which meets none.
    pub async fn meet(
        &self,
        presence: &Presence,
        may_write: impl FnOnce(&Peers) -> bool,
    ) -> Result<(), Unavailable> {
        self.database.meet(presence, may_write).await
    }

    /// Finishes the queued commits, then releases the database. Later calls return `Unavailable`.
    pub async fn close(&self) {
        self.database.close().await;
    }

    async fn commit_and_cache(
        &self,
        commit: Commit,
        token: Option<Token>,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        let started = Instant::now();
        let span = tracing::info_span!(target: "trace", "store.commit", n_events = commit.events.len());
        let committed = self.write_and_cache(commit, token).instrument(span).await;
        let result = match &committed {
            Ok(RateLimited::Written { .. }) => "written",
            Ok(RateLimited::Conflict) => "conflict",
            Ok(RateLimited::Exhausted { .. }) => "exhausted",
            Err(_) => "error",
        };
        histogram!(DURATION, "result" => result).record(started.elapsed());
        committed
    }

    /// Writes a commit, which returns the log's root, and updates the caches.
    async fn write_and_cache(
        &self,
        commit: Commit,
        token: Option<Token>,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        let rows = encode::commit(&commit)?;
        let Commit { operation, previous_record_root, keys, .. } = commit;
        let record_root = rows.events.last().map_or(previous_record_root, |last| last.hash);
        let what = format!("operation `{}` could not be written", operation.id);
        match self.database.commit(CommitWrite { rows, token }, what).await {
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

impl Store {
    async fn write_decision(
        &self,
        record: DecisionRecord,
        token: Option<Token>,
    ) -> Result<RateLimited<Option<u64>>, Unavailable> {
        let (operation_id, repeats) = (record.operation_id, record.input.moment == Moment::Admission);
        let write = DecisionWrite { operation_id, row: encode::decision(&record)?, repeats, token };
        self.database.write(write, "a policy decision could not be written").await
    }
}

/// Finds out whether the database can be written.
pub(crate) fn probe(at: EpochMs) -> InTurn {
    let sql = "INSERT INTO write_probe (id, at_ms) VALUES (1, $1)
         ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms";
    InTurn(vec![(sql, vec![instant(at).into()])])
}

#[async_trait]
impl CommitOperations for Store {
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable> {
        match self.commit_and_cache(commit, None).await? {
            RateLimited::Written { written, .. } => Ok(Committed::Written(written)),
            RateLimited::Conflict | RateLimited::Exhausted { .. } => Ok(Committed::Conflict),
        }
    }

    async fn decision_record(&self, record: DecisionRecord) -> Result<Option<u64>, Unavailable> {
        match self.write_decision(record, None).await? {
            RateLimited::Written { written, .. } => Ok(written),
            RateLimited::Conflict | RateLimited::Exhausted { .. } => Ok(None),
        }
    }

    async fn commit_with_token(
        &self,
        commit: Commit,
        token: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        self.commit_and_cache(commit, Some(token)).await
    }

    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        token: Token,
    ) -> Result<RateLimited<Option<u64>>, Unavailable> {
        self.write_decision(record, Some(token)).await
    }

    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable> {
        self.previews.write(&self.database, encode::preview(&record)?, n_kept).await
    }

    async fn defer(&self, deferrals: &[Deferral], now: EpochMs) -> Result<(), Unavailable> {
        work::defer(&self.database, deferrals, now).await
    }

    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable> {
        self.database.probe(probe(at)).await.map(drop)
    }
}
