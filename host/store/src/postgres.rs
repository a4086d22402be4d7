//! PostgreSQL: replicas share one database. Each has one connection that writes, and some that read.
//!
//! A writing transaction first locks the row with the end of the log (`ledger_head`), so that the log has one order whichever replica
//! appends. It has all the changes that wait at that moment: one lock and one sync of the disk for all of them. Nothing else of a
//! request waits for other replicas.

mod activation;
mod commit;
mod connect;
mod decision;
mod job;
mod migrate;
mod preview;
mod replicas;
pub(crate) mod schema;
#[cfg(test)]
mod tests;
mod work;
mod writer;

use crate::database::Counters;
use crate::error::failed;
use crate::record::encode::policies::{ActivationRow, BundleRows};
use crate::record::encode::{DecisionRow, EvaluationRow, Rows, TokenRow};
use crate::sql::rows::{Pool, Statements};
use crate::store::lists::{ByIndex, Lists, list_of_keys, list_of_operations};
use activation::{ActivationJob, ProbeJob};
use commit::CommitJob;
pub use connect::{CONNECTIONS, OpenError};
pub(crate) use connect::{Server, production_fault};
use decision::DecisionJob;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, Deferral, Due, RateLimited};
pub(crate) use job::Job;
use preview::PreviewJob;
use replicas::MayWrite;
pub use replicas::{Peer, Peers, Presence};
use std::fmt::Display;
use std::sync::Arc;
use writer::Writer;

/// Condition on the first event of an operation that may change a key, as in the indexes on such events.
macro_rules! opens_a_change {
    () => {
        "seq = 1 AND (body::jsonb #>> '{change,intent,kind}') NOT IN ('payment', 'asset_action')"
    };
}

/// The id of the operation's key or of its successor, as in those indexes.
macro_rules! changed_key {
    ($which:literal) => {
        concat!("(body::jsonb #>> '{change,", $which, ",key_id}')")
    };
}

/// The expression of the index `custody_keys_quorum`.
macro_rules! key_quorum {
    () => {
        "(CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
         THEN (body::jsonb ->> 'threshold') || ' ' || (body::jsonb ->> 'participants') END)"
    };
}

pub(crate) const STATEMENTS: Statements = Statements {
    // Ids are compared with arrays, since the planner cannot estimate the size of a recursive query, and would read whole tables.
    changes: concat!(
        "WITH RECURSIVE line (key_id) AS (SELECT $1 UNION
             SELECT ",
        changed_key!("key"),
        " FROM line JOIN events ON ",
        opens_a_change!(),
        " AND ",
        changed_key!("successor"),
        " = line.key_id),
         changes (operation_id) AS (
             SELECT operation_id FROM events WHERE ",
        opens_a_change!(),
        " AND ",
        changed_key!("key"),
        " = ANY (ARRAY(SELECT key_id FROM line))
             UNION SELECT operation_id FROM events WHERE ",
        opens_a_change!(),
        " AND ",
        changed_key!("successor"),
        " = ANY (ARRAY(SELECT key_id FROM line)))
         SELECT ledger_index, events.operation_id, seq, event_hash, salt, events.format, events.body,
             operations.revision AS revision, operations.record_root AS record_root
         FROM events LEFT JOIN operations ON operations.operation_id = events.operation_id
         WHERE events.operation_id = ANY (ARRAY(SELECT operation_id FROM changes))
         ORDER BY events.operation_id, seq"
    ),
    key_quorums: concat!(
        "WITH RECURSIVE quorums (quorum) AS (SELECT '' UNION ALL SELECT (SELECT ",
        key_quorum!(),
        " FROM custody_keys WHERE ",
        key_quorum!(),
        " > quorum ORDER BY ",
        key_quorum!(),
        " LIMIT 1) FROM quorums WHERE quorum IS NOT NULL)
         SELECT quorum FROM quorums WHERE quorum > '' LIMIT $1"
    ),
    log_nodes: "SELECT level, position, hash FROM (
            SELECT value::bigint AS node FROM json_array_elements_text($1::json) AS value) AS wanted
        JOIN ledger_nodes ON level = node >> 57 AND position = node & ((1::bigint << 57) - 1)
        UNION ALL SELECT 0, ledger_index, hash FROM (
            SELECT value::bigint AS leaf FROM json_array_elements_text($2::json) AS value) AS wanted
        JOIN ledger_leaves ON ledger_index = leaf",
    events_at: "SELECT operation_id, body FROM events WHERE ledger_index IN (
            SELECT value::bigint FROM json_array_elements_text($1::json) AS value)
        ORDER BY ledger_index",
    counters: "row_counters",
    counted: "SELECT * FROM row_counters WHERE name = $1",
    database_bytes: "SELECT pg_database_size(current_database())",
    lists: Lists {
        operations: ByIndex {
            all: list_of_operations!("(body::jsonb #>> '{intent,kind}')", "TRUE"),
            undecided: list_of_operations!("(body::jsonb #>> '{intent,kind}')", "awaits_approvals = 1"),
            in_state: list_of_operations!("(body::jsonb #>> '{intent,kind}')", "state = $7"),
            of_kind: list_of_operations!(
                "(body::jsonb #>> '{intent,kind}')",
                "family = 'custody' AND (body::jsonb #>> '{intent,kind}') = $8"
            ),
            on_key: list_of_operations!("(body::jsonb #>> '{intent,kind}')", "key_id = $9"),
            one: list_of_operations!("(body::jsonb #>> '{intent,kind}')", "operation_id = $10"),
        },
        keys: list_of_keys!("((body::jsonb ->> 'created_at_ms')::bigint)", "TRUE"),
        keys_named: list_of_keys!("((body::jsonb ->> 'created_at_ms')::bigint)", "key_ref = $7"),
    },
};

/// An open database. Dropping it lets queued changes finish.
#[derive(Debug)]
pub(crate) struct Postgres {
    writer: Writer,
    pool: Pool,
    may_write: Arc<MayWrite>,
}

impl Postgres {
    /// Opens the database that the URL names, which must exist, and brings its schema up to date.
    /// `n_connections` are at most open at the same time, at least two.
    pub(crate) async fn open(url: &str, n_connections: u32) -> Result<Self, OpenError> {
        let server = Server::parse(url)?;
        server.check_sessions().await?;
        let mut conn = server.connect().await?;
        connect::check_room(&server, &mut conn, n_connections).await?;
        migrate::run(&server, &mut conn).await?;
        let pool = Pool::Postgres(server.pool(n_connections.saturating_sub(1).max(1)).await?);
        let mut replica = [0; 16];
        getrandom::fill(&mut replica).map_err(|error| OpenError::Randomness { reason: error.to_string() })?;
        // The name is random, so that each process is another replica.
        let may_write = Arc::new(MayWrite::new(replica));
        let writer = Writer::start(server, conn, Arc::clone(&may_write)).await?;
        Ok(Self { writer, pool, may_write })
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// As [`ReadOperations::operations_owing`](gateway_engine::ports::ReadOperations::operations_owing).
    pub(crate) async fn take(&self, n_of_tenant_max: u32, n_max: u32) -> Result<Vec<Due>, Unavailable> {
        work::take(&self.pool, n_of_tenant_max, n_max).await
    }

    pub(crate) async fn defer(&self, deferrals: &[Deferral]) -> Result<(), Unavailable> {
        work::defer(&self.pool, deferrals).await
    }

    /// As [`Store::meet`](crate::Store::meet).
    pub(crate) async fn meet(
        &self,
        presence: &Presence,
        may_write: impl FnOnce(&Peers) -> bool,
    ) -> Result<(), Unavailable> {
        let (peers, since) = replicas::meet(&self.pool, self.may_write.replica(), presence).await?;
        self.may_write.set(may_write(&peers).then_some(since));
        Ok(())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.writer.counters()
    }

    pub(crate) async fn close(&self) {
        // If that fails, its row expires.
        let _ = replicas::leave(&self.pool, self.may_write.replica()).await;
        self.pool.close().await;
        self.writer.close().await;
    }

    pub(crate) async fn commit(
        &self,
        rows: Rows,
        token: Option<TokenRow>,
        what: impl Display,
    ) -> Result<RateLimited<Hex32>, Unavailable> {
        self.write(CommitJob { rows, token }, what).await
    }

    pub(crate) async fn decision(
        &self,
        row: DecisionRow,
        token: Option<TokenRow>,
        what: impl Display,
    ) -> Result<RateLimited<()>, Unavailable> {
        self.write(DecisionJob { row, token }, what).await
    }

    pub(crate) async fn previews(
        &self,
        rows: Vec<EvaluationRow>,
        n_kept: u32,
        what: impl Display,
    ) -> Result<(), Unavailable> {
        self.write(PreviewJob { rows, n_kept }, what).await
    }

    pub(crate) async fn activation(
        &self,
        activation: ActivationRow,
        bundle: BundleRows,
        what: impl Display,
    ) -> Result<Activated, Unavailable> {
        self.write(ActivationJob { activation, bundle }, what).await
    }

    pub(crate) async fn probe(&self, at: EpochMs) -> Result<(), Unavailable> {
        self.write(ProbeJob(at), "the database cannot be written").await
    }

    /// Runs a job. `what` is the text of the error if it fails.
    pub(crate) async fn write<J: Job>(&self, job: J, what: impl Display) -> Result<J::Output, Unavailable> {
        self.writer.write(job).await.map_err(|error| {
            if error.is_disk_full() {
                return failed(format_args!("{what}: the disk is full"), &error);
            }
            failed(what, &error)
        })
    }
}

/// Connects once, and changes nothing.
pub(crate) async fn reach(url: &str) -> Result<(), OpenError> {
    let server = Server::parse(url)?;
    let conn = server.connect().await?;
    sqlx::Connection::close(conn).await.map_err(|error| server.failed(error))
}

/// Checks server and schema, as [`Postgres::open`] does, and changes nothing. Returns the server's clock.
pub(crate) async fn check(url: &str) -> Result<EpochMs, OpenError> {
    let server = Server::parse(url)?;
    server.check_sessions().await?;
    let mut conn = server.connect().await?;
    migrate::check_current(&server, &mut conn).await?;
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let now: i64 =
        sqlx::query_scalar(sql).fetch_one(&mut conn).await.map_err(|error| server.failed(error))?;
    Ok(EpochMs(u64::try_from(now).unwrap_or_default()))
}

/// One read-only connection to a database that gateways may have open.
pub(crate) async fn reader(url: &str) -> Result<Pool, OpenError> {
    let server = Server::parse(url)?;
    let readers = server.reader().await?;
    let mut conn = readers.pool.acquire().await.map_err(|error| server.failed(error))?;
    migrate::check_current(&server, &mut conn).await?;
    drop(conn);
    Ok(Pool::Postgres(readers))
}
