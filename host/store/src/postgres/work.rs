//! Shares the work of the reconcilers between replicas: each operation is given to one of them for a while.

use crate::error::failed;
use crate::row::Cell;
use crate::rows::Pool;
use gateway_domain::ids::OperationId;
use gateway_engine::Unavailable;

/// The time for which an operation belongs to a replica, after which any replica tries again: the first one may have died. Each is given
/// out once in that time, so that operations that cannot finish do not keep others from their turn.
const TAKEN_FOR: &str = "60 seconds";

/// An operation that changed this recently is driven by the request that changed it.
const DRIVEN_FOR_MS: i64 = 5_000;

/// At most so many operations are taken at once, so that others are left for the other replicas.
const TAKEN_MAX: u32 = 256;

/// Rows that another replica locks are skipped: it is taking them. If it has just taken one that this statement does not see yet, the
/// last condition leaves it to that replica. That statement may have begun after this one, so its time is a little further ahead than
/// this one's own; only a time beyond two turns is not one of ours.
const TAKE: &str = "WITH due AS (
        SELECT operation_id, updated_at_ms FROM operations
        WHERE owes = 1 AND updated_at_ms <= extract(epoch FROM now()) * 1000 - $3 AND NOT EXISTS (
            SELECT 1 FROM operations_taken AS taken WHERE taken.operation_id = operations.operation_id
            AND taken.until > now() AND taken.until <= now() + 2 * $4::interval)
        ORDER BY updated_at_ms LIMIT $2 FOR UPDATE SKIP LOCKED),
    taken AS (
        INSERT INTO operations_taken (operation_id, replica, until)
        SELECT operation_id, $1, now() + $4::interval FROM due
        ON CONFLICT (operation_id) DO UPDATE SET replica = excluded.replica, until = excluded.until
        WHERE operations_taken.until <= now() OR operations_taken.until > now() + 2 * $4::interval
        RETURNING operation_id)
    SELECT operation_id FROM taken JOIN due USING (operation_id) ORDER BY updated_at_ms";

const DROP: &str = "DELETE FROM operations_taken WHERE until <= now() - interval '1 hour'";

/// At most `n_max` operations that owe a step, those unchanged for longest first. No replica gets them again for a minute.
pub(super) async fn take(pool: &Pool, replica: &[u8], n_max: u32) -> Result<Vec<OperationId>, Unavailable> {
    let failed = |error: sqlx::Error| failed("the operations to drive could not be read", &error);
    let n_max = i64::from(n_max.min(TAKEN_MAX));
    let bound = [Cell::Blob(replica.to_vec()), n_max.into(), DRIVEN_FOR_MS.into(), TAKEN_FOR.into()];
    let taken = pool.rows(TAKE, &bound).await.map_err(failed)?;
    pool.rows(DROP, &[]).await.map_err(failed)?;
    Ok(taken.iter().filter_map(|row| row.hash("operation_id").map(OperationId)).collect())
}
