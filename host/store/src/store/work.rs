//! The reconciler's work list: the operations that owe a step, when each is due, and their waits.

use crate::database::{Database, read_only};
use crate::error::failed;
use crate::record::encode::instant;
use crate::sql::row::Row;
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Deferral, Due, WAIT_MAX_MS};
use serde_json::{Value, json};

/// The tenants with such operations, found in the index without reading the operations.
macro_rules! tenants {
    () => {
        "WITH RECURSIVE tenants (tenant) AS (
            SELECT min(tenant) FROM operations WHERE owes = 1 UNION ALL
            SELECT (SELECT min(tenant) FROM operations WHERE owes = 1 AND tenant > tenants.tenant)
            FROM tenants WHERE tenant IS NOT NULL)"
    };
}
pub(crate) use tenants;

pub(crate) const OWING: &str = concat!(
    tenants!(),
    " SELECT operation_id, operations.tenant AS tenant, waited_ms FROM tenants CROSS JOIN operations
    WHERE operations.rowid IN (SELECT due.rowid FROM operations AS due
        WHERE due.owes = 1 AND due.tenant = tenants.tenant AND (due.due_ms <= $1 OR due.due_ms > $2)
        ORDER BY due.due_ms, due.updated_at_ms LIMIT $3)
    ORDER BY due_ms, updated_at_ms LIMIT $4"
);

/// The last instant that is due, and the last one that is not due yet.
pub(crate) fn is_due(now: EpochMs) -> [i64; 2] {
    [instant(now), instant(now.plus_ms(WAIT_MAX_MS))]
}

/// The rows of a list of operations.
pub(crate) fn due(rows: Result<Vec<Row>, sqlx::Error>) -> Result<Vec<Due>, Unavailable> {
    let rows = rows.map_err(|error| failed("the operations to drive could not be read", &error))?;
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

impl Database {
    pub(crate) async fn owing(
        &self,
        now: EpochMs,
        n_of_tenant_max: u32,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        match self {
            Self::Postgres(database) => database.take(n_of_tenant_max, n_max).await,
            Self::Sqlite(_) | Self::ReadOnly(_) => {
                let [now, latest] = is_due(now);
                let bound =
                    [now.into(), latest.into(), i64::from(n_of_tenant_max).into(), i64::from(n_max).into()];
                due(self.pool().rows(OWING, &bound).await)
            }
        }
    }

    /// Makes the operations due again after their waits.
    pub(crate) async fn defer(&self, deferrals: &[Deferral], now: EpochMs) -> Result<(), Unavailable> {
        match self {
            Self::Sqlite(database) => database.defer(deferrals, now).await,
            Self::Postgres(database) => database.defer(deferrals).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }
}

/// The deferrals as an array for SQL.
pub(crate) fn as_json(deferrals: &[Deferral]) -> String {
    let deferrals = deferrals
        .iter()
        .map(|one| json!({ "id": one.id.0, "wait_ms": one.wait_ms, "waited_ms": one.waited_ms }));
    Value::Array(deferrals.collect()).to_string()
}
