//! Shares the work of the reconcilers between replicas: each operation is given to one of them for a while.

use crate::error::failed;
use crate::sql::row::Cell;
use crate::sql::rows::Pool;
use crate::store::work::{as_json, due, tenants};
use gateway_engine::Unavailable;
use gateway_engine::ports::{Deferral, Due, WAIT_MAX_MS};

/// The time for which an operation belongs to a replica, milliseconds, after which any replica tries again: the first one may have
/// died. Each is given out once in that time, so that operations that cannot finish do not keep others from their turn.
const TAKEN_FOR_MS: i64 = 60_000;

/// An operation that changed this recently is driven by the request that changed it.
const DRIVEN_FOR_MS: i64 = 5_000;

/// At most so many operations are taken at once, so that others are left for the other replicas.
const TAKEN_MAX: u32 = 256;

/// The server's clock, milliseconds, which all replicas share.
macro_rules! now {
    () => {
        "(extract(epoch FROM now()) * 1000)::bigint"
    };
}

/// Whether an operation of a tenant may be taken.
macro_rules! is_due {
    () => {
        concat!(
            "owes = 1 AND tenant = tenants.tenant AND (due_ms <= ",
            now!(),
            " OR due_ms > ",
            now!(),
            " + $5) AND updated_at_ms <= ",
            now!(),
            " - $3"
        )
    };
}

/// Tenants share what is taken, those first whose operations are due for longest. Rows that another replica locks are skipped: it is
/// taking them. If it has just taken one that this statement does not see yet, the row is read again once it is locked, and is no longer
/// due. The wait is in the result, and ends with the taking: a change while the operation is taken is one of the replica that took it.
const TAKE: &str = concat!(
    tenants!(),
    ", turns AS MATERIALIZED (
        SELECT tenants.tenant FROM tenants CROSS JOIN LATERAL (
            SELECT due_ms FROM operations WHERE ",
    is_due!(),
    " ORDER BY due_ms LIMIT 1) AS first ORDER BY first.due_ms, tenants.tenant LIMIT $2),
    due AS (
        SELECT found.* FROM turns AS tenants CROSS JOIN LATERAL (
            SELECT operation_id, due_ms, waited_ms FROM operations WHERE ",
    is_due!(),
    " ORDER BY due_ms, updated_at_ms LIMIT least($1, greatest(1, $2 / greatest(1, (SELECT count(*) FROM turns))))
            FOR UPDATE SKIP LOCKED) AS found),
    taken AS (
        UPDATE operations SET due_ms = ",
    now!(),
    " + $4, waited_ms = 0 FROM due WHERE operations.operation_id = due.operation_id
        RETURNING operations.operation_id, tenant, updated_at_ms, due.due_ms AS was_due_ms, due.waited_ms AS waited_ms)
    SELECT operation_id, tenant, waited_ms FROM taken ORDER BY was_due_ms, updated_at_ms"
);

/// Rows that a commit locks are skipped: they change, so they do not wait.
const DEFER: &str = concat!(
    "UPDATE operations SET due_ms = ",
    now!(),
    " + deferred.wait_ms, waited_ms = deferred.waited_ms FROM (
        SELECT operation_id AS id, (deferred ->> 'wait_ms')::bigint AS wait_ms,
            (deferred ->> 'waited_ms')::bigint AS waited_ms FROM operations
        JOIN json_array_elements($1::json) AS deferred ON operation_id = decode(deferred ->> 'id', 'hex')
        FOR UPDATE OF operations SKIP LOCKED) AS deferred WHERE operation_id = deferred.id"
);

/// Operations that owe a step. No replica gets them again for a minute.
pub(super) async fn take(pool: &Pool, n_of_tenant_max: u32, n_max: u32) -> Result<Vec<Due>, Unavailable> {
    let limits = [n_of_tenant_max, n_max.min(TAKEN_MAX)].map(|limit| Cell::from(i64::from(limit)));
    let [of_tenant, of_all] = limits;
    let latest = i64::try_from(WAIT_MAX_MS).unwrap_or(i64::MAX);
    let bound = [of_tenant, of_all, DRIVEN_FOR_MS.into(), TAKEN_FOR_MS.into(), latest.into()];
    due(pool.rows(TAKE, &bound).await)
}

/// Makes the operations due again after their waits.
pub(super) async fn defer(pool: &Pool, deferrals: &[Deferral]) -> Result<(), Unavailable> {
    let deferred = pool.rows(DEFER, &[as_json(deferrals).as_str().into()]).await;
    deferred.map(drop).map_err(|error| failed("the waits could not be stored", &error))
}
