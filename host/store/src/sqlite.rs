//! SQLite: one file, one writer that commits waiting jobs together, and read-only connections.

mod activation;
mod commit;
mod decision;
mod preview;
mod quota;
pub(crate) mod schema;
#[cfg(test)]
mod tests;
mod work;

use crate::database::Counters;
use crate::error::{OpenError, failed, unavailable, unwritten};
use crate::record::encode::instant;
use crate::record::encode::policies::{ActivationRow, BundleRows};
use crate::record::encode::{DecisionRow, EvaluationRow, Rows, TokenRow};
use crate::record::frontier::{self, LogFrontier};
use crate::sql::rows::{Pool, Statements};
use crate::store::lists::{ByIndex, Lists, list_of_keys, list_of_operations};
use crate::store::work::as_json;
use activation::{ActivationJob, ProbeJob};
use commit::CommitJob;
use decision::{DecisionJob, DecisionWithTokenJob};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, Deferral, RateLimited};
use gateway_sqlite::{
    ApplicationId, CopyError, Database, Job, Migration, Options, Reader, State, check_writable,
};
use preview::PreviewJob;
use sqlx::SqliteConnection;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use work::{DeferJob, NoWaitsJob};

/// Marks a database file as the gateway's.
const APPLICATION_ID: ApplicationId = ApplicationId::new(*b"OpGw");

const MIGRATIONS: &[Migration] = &[
    migration(1, "store", include_str!("../migrations/sqlite/0001_store.sql")),
];

const fn migration(version: u32, name: &'static str, sql: &'static str) -> Migration {
    Migration { version, name, sql }
}

/// The index of a table's next row. Jobs run one after another, so each sees the rows of the ones before.
async fn next_index(conn: &mut SqliteConnection, table: &'static str) -> Result<i64, sqlx::Error> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    let last: Option<i64> = sqlx::query_scalar(sql).bind(table).fetch_optional(conn).await?;
    Ok(last.unwrap_or_default().saturating_add(1))
}

/// Condition on the first event of an operation that may change a key. It must be the same text as in the indexes
/// `events_changing_key` and `events_making_successor`: otherwise SQLite would not use them.
macro_rules! opens_a_change {
    () => {
        "seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action')"
    };
}

/// The expression of the index `custody_keys_quorum`. It must be the same text: otherwise SQLite would not use the index.
macro_rules! key_quorum {
    () => {
        "CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
         THEN (body ->> '$.threshold') || ' ' || (body ->> '$.participants') END"
    };
}

pub(crate) const STATEMENTS: Statements = Statements {
    changes: concat!(
        "WITH RECURSIVE line (key_id) AS (SELECT $1 UNION
         SELECT body ->> '$.change.key.key_id' FROM line CROSS JOIN events
         ON ",
        opens_a_change!(),
        " AND (body ->> '$.change.successor.key_id') = line.key_id),
     changes (operation_id) AS (
         SELECT operation_id FROM line CROSS JOIN events
         ON ",
        opens_a_change!(),
        " AND (body ->> '$.change.key.key_id') = line.key_id
         UNION SELECT operation_id FROM line CROSS JOIN events
         ON ",
        opens_a_change!(),
        " AND (body ->> '$.change.successor.key_id') = line.key_id)
     SELECT ledger_index, operation_id, seq, event_hash, salt, events.format, events.body,
         operations.revision AS revision, operations.record_root AS record_root
     FROM changes CROSS JOIN events USING (operation_id) LEFT JOIN operations USING (operation_id)
     ORDER BY operation_id, seq"
    ),
    key_quorums: concat!(
        "WITH RECURSIVE quorums (quorum) AS (SELECT '' UNION ALL SELECT (SELECT ",
        key_quorum!(),
        " FROM custody_keys WHERE ",
        key_quorum!(),
        " > quorum ORDER BY ",
        key_quorum!(),
        " LIMIT 1) FROM quorums WHERE quorum IS NOT NULL LIMIT $1 + 1) SELECT quorum FROM quorums WHERE quorum > ''"
    ),
    log_nodes: "SELECT level, position, hash FROM json_each($1) AS node
        CROSS JOIN ledger_nodes ON level = node.value >> 57 AND position = node.value & ((1 << 57) - 1)
        UNION ALL SELECT 0, ledger_index, hash FROM json_each($2) AS leaf
        CROSS JOIN ledger_leaves ON ledger_index = leaf.value",
    events_at: "SELECT operation_id, body FROM events
        WHERE ledger_index IN (SELECT value FROM json_each($1)) ORDER BY ledger_index",
    counters: "sqlite_sequence",
    counted: "SELECT * FROM sqlite_sequence WHERE name = $1",
    database_bytes: "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    lists: Lists {
        operations: ByIndex {
            all: list_of_operations!("CASE WHEN json_valid(body) THEN body ->> '$.intent.kind' END", "TRUE"),
            undecided: list_of_operations!(
                "CASE WHEN json_valid(body) THEN body ->> '$.intent.kind' END",
                "awaits_approvals = 1"
            ),
            in_state: list_of_operations!(
                "CASE WHEN json_valid(body) THEN body ->> '$.intent.kind' END",
                "state = $7"
            ),
            of_kind: list_of_operations!(
                "CASE WHEN json_valid(body) THEN body ->> '$.intent.kind' END",
                "family = 'custody' AND json_valid(body) AND (body ->> '$.intent.kind') = $8"
            ),
            on_key: list_of_operations!(
                "CASE WHEN json_valid(body) THEN body ->> '$.intent.kind' END",
                "key_id = $9"
            ),
            one: list_of_operations!(
                "CASE WHEN json_valid(body) THEN body ->> '$.intent.kind' END",
                "operation_id = $10"
            ),
        },
        keys: list_of_keys!("(body ->> '$.created_at_ms')", "json_valid(body)"),
        keys_named: list_of_keys!("(body ->> '$.created_at_ms')", "json_valid(body) AND key_ref = $7"),
    },
};

impl State for LogFrontier {
    async fn load(conn: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        frontier::load_and_check(conn, &STATEMENTS).await
    }
}

/// An open SQLite file, which this process alone writes. Dropping it lets queued jobs finish.
#[derive(Debug)]
pub(crate) struct Sqlite {
    database: Database<LogFrontier>,
    pool: Pool,
    n_statements: Arc<AtomicU64>,
}

impl Sqlite {
    /// Writes a copy of the database at `location` to a new file, also while a gateway writes.
    pub(crate) async fn backup(
        location: &str,
        to: &Path,
        on_progress: impl FnMut(u64, u64),
    ) -> Result<(), CopyError> {
        let reader = Reader::open(Options::at(location, APPLICATION_ID, MIGRATIONS)?).await?;
        let copied = reader.copy_to(to, on_progress).await;
        reader.close().await;
        copied
    }

    /// Puts a copy in the place of the database at `location`.
    pub(crate) async fn restore(location: &str, copy: &Path) -> Result<Option<PathBuf>, CopyError> {
        gateway_sqlite::restore(Options::at(location, APPLICATION_ID, MIGRATIONS)?, copy).await
    }

    /// Opens the database at `location` (`sqlite://path`, `sqlite:path` or a path) and brings its schema up to date.
    /// Creates a missing file, and its folder.
    pub(crate) async fn open(location: &str) -> Result<Self, OpenError> {
        let options = Options::at(location, APPLICATION_ID, MIGRATIONS)?.create();
        let database = Database::open(options).await?;
        let pool = Pool::Sqlite(database.reader().clone());
        let opened = Self { database, pool, n_statements: Arc::default() };
        // A failure shows at the next write. Until then operations wait, for a minute at most.
        let _waits_end_anyway = opened.write(NoWaitsJob, "the waits could not be ended").await;
        Ok(opened)
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn counters(&self) -> Counters {
        let written = self.database.counters();
        Counters {
            jobs: written.jobs,
            transactions: written.commits,
            rollbacks: written.rollbacks,
            statements: self.n_statements.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn close(&self) {
        self.database.close().await;
    }

    pub(crate) async fn commit(
        &self,
        rows: Rows,
        token: Option<TokenRow>,
        what: impl Display,
    ) -> Result<RateLimited<Hex32>, Unavailable> {
        let job = CommitJob { rows, token, n_statements: Arc::clone(&self.n_statements) };
        self.write(job, what).await
    }

    pub(crate) async fn decision(
        &self,
        row: DecisionRow,
        token: Option<TokenRow>,
        what: impl Display,
    ) -> Result<RateLimited<()>, Unavailable> {
        let job = DecisionJob { row, n_statements: Arc::clone(&self.n_statements) };
        match token {
            Some(token) => self.write(DecisionWithTokenJob { decision: job, token }, what).await,
            None => {
                self.write(job, what).await?;
                Ok(RateLimited::Written { written: (), full_at_us: 0 })
            }
        }
    }

    pub(crate) async fn previews(
        &self,
        rows: Vec<EvaluationRow>,
        n_kept: u32,
        what: impl Display,
    ) -> Result<(), Unavailable> {
        let job = PreviewJob { rows, n_kept, n_statements: Arc::clone(&self.n_statements) };
        self.write(job, what).await
    }

    pub(crate) async fn activation(
        &self,
        activation: ActivationRow,
        bundle: BundleRows,
        what: impl Display,
    ) -> Result<Activated, Unavailable> {
        let job = ActivationJob { activation, bundle, n_statements: Arc::clone(&self.n_statements) };
        self.write(job, what).await
    }

    pub(crate) async fn probe(&self, at: EpochMs) -> Result<(), Unavailable> {
        let Err(error) = self.database.write(ProbeJob(at)).await else { return Ok(()) };
        // The operator who reads the readiness answer needs to know which disk needs room.
        Err(match self.database.full_disk() {
            Some(path) => unavailable(format_args!("the disk with `{}` is full", path.display())),
            None => failed("the database cannot be written", &error),
        })
    }

    /// Makes the operations due again after their waits.
    pub(crate) async fn defer(&self, deferrals: &[Deferral], now: EpochMs) -> Result<(), Unavailable> {
        let job = DeferJob { deferrals: as_json(deferrals), now_ms: instant(now) };
        self.write(job, "the waits could not be stored").await
    }

    /// Runs a job. `what` is the text of the error if it fails.
    pub(crate) async fn write<J: Job<State = LogFrontier>>(
        &self,
        job: J,
        what: impl Display,
    ) -> Result<J::Output, Unavailable> {
        self.database.write(job).await.map_err(|error| unwritten(&self.database, what, &error))
    }
}

/// Whether a database file exists at `location`. Creates nothing.
pub(crate) fn exists(location: &str) -> Result<bool, OpenError> {
    Ok(Options::at(location, APPLICATION_ID, MIGRATIONS)?.exists())
}

/// Checks that the file can be read as this release writes it, and that it could be written.
pub(crate) async fn check(location: &str) -> Result<(), OpenError> {
    let options = Options::at(location, APPLICATION_ID, MIGRATIONS)?;
    check_writable(&options)?;
    Reader::open(options).await?.close().await;
    Ok(())
}

/// One read-only connection to a file that another process may have open.
pub(crate) async fn reader(location: &str) -> Result<Pool, OpenError> {
    let reader = Reader::open(Options::at(location, APPLICATION_ID, MIGRATIONS)?).await?;
    Ok(Pool::Sqlite(reader.pool().clone()))
}
