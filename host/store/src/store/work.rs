//! The reconciler's work list: the operations that owe a step, when each is due, and their waits.

use crate::change::Change;
use crate::database::{Database, read_only};
use crate::record::encode::instant;
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row};
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Deferral, Due, WAIT_MAX_MS};
use serde_json::{Value, json};

/// As [`ReadOperations::operations_owing`](gateway_engine::ports::ReadOperations::operations_owing). Replicas take what they read.
pub(crate) async fn owing(
    database: &Database,
    now: EpochMs,
    n_of_tenant_max: u32,
    n_max: u32,
) -> Result<Vec<Due>, Unavailable> {
    if database.is_read_only() {
        return Err(read_only());
    }
    let [now, latest] = is_due(now);
    let bound = [now.into(), latest.into(), i64::from(n_of_tenant_max).into(), i64::from(n_max).into()];
    due(database, database.pool().statements().owing, &bound).await
}

/// The last instant that is due, and the last one that is not due yet.
pub(crate) fn is_due(now: EpochMs) -> [i64; 2] {
    [instant(now), instant(now.plus_ms(WAIT_MAX_MS))]
}

/// The operations that a statement lists.
pub(crate) async fn due(database: &Database, sql: &str, bound: &[Cell]) -> Result<Vec<Due>, Unavailable> {
    let rows = database.pool().rows(sql, bound, "the operations to drive could not be read").await?;
    let read = |row: &Row| {
        let waited_ms = row.integer("waited_ms").and_then(|waited| u64::try_from(waited).ok());
        Some(Due {
            id: OperationId(row.hash("operation_id")?),
            tenant: Tenant(row.text("tenant")?.to_owned()),
            waited_ms: waited_ms.unwrap_or_default(),
        })
    };
    Ok(rows.iter().filter_map(read).collect())
}

/// Makes the operations due again after their waits.
pub(crate) async fn defer(
    database: &Database,
    deferrals: &[Deferral],
    now: EpochMs,
) -> Result<(), Unavailable> {
    let waits = deferrals
        .iter()
        .map(|one| json!({ "id": one.id.0, "wait_ms": one.wait_ms, "waited_ms": one.waited_ms }));
    let defer = Defer { waits: Value::Array(waits.collect()).to_string(), now_ms: instant(now) };
    database.write_apart(defer, "the waits could not be stored").await
}

struct Defer {
    /// A JSON array.
    waits: String,
    now_ms: i64,
}

impl Change for Defer {
    type Output = ();

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<(), sqlx::Error> {
        let sql = conn.statements().defer;
        conn.rows(sql, &[self.waits.as_str().into(), self.now_ms.into()]).await.map(drop)
    }
}
