//! The reconciler's work list: the operations that owe a step, when each is due, and their waits.

use crate::change::InTurn;
use crate::database::{Database, read_only};
use crate::sql::row::{Cell, Hashes, Row, instant};
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
    let bound = vec![Value::Array(waits.collect()).to_string().into(), instant(now).into()];
    let defer = InTurn(vec![(database.pool().statements().defer, bound)]);
    database.write_apart(defer, "the waits could not be stored").await.map(drop)
}
