//! The SQL of PostgreSQL, and how its connections read rows.

use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Names, Row};
use crate::sql::statements::{Part, Statements, tenants_that_owe};
use sqlx::postgres::{PgArguments, PgRow, PgValueRef};
use sqlx::{AssertSqlSafe, Column, Decode, PgConnection, Postgres, Row as _, TypeInfo as _, ValueRef as _};

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

/// The server's clock, milliseconds, which all replicas share.
macro_rules! now {
    () => {
        "(extract(epoch FROM now()) * 1000)::bigint"
    };
}

/// Whether an operation of a tenant may be taken. One that changed in the last five seconds is driven by the request that changed it.
macro_rules! may_be_taken {
    () => {
        concat!(
            "owes = 1 AND tenant = tenants.tenant AND (due_ms <= ",
            now!(),
            " OR due_ms > ",
            now!(),
            " + ($2 - $1)) AND updated_at_ms <= ",
            now!(),
            " - 5000"
        )
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
    log_nodes: "SELECT level, position, hash FROM (
            SELECT value::bigint AS node FROM json_array_elements_text($1::json) AS value) AS wanted
        JOIN ledger_nodes ON level = node >> 57 AND position = node & ((1::bigint << 57) - 1)
        UNION ALL SELECT 0, ledger_index, hash FROM (
            SELECT value::bigint AS leaf FROM json_array_elements_text($2::json) AS value) AS wanted
        JOIN ledger_leaves ON ledger_index = leaf",
    events_at: "SELECT operation_id, body FROM events WHERE ledger_index IN (
            SELECT value::bigint FROM json_array_elements_text($1::json) AS value)
        ORDER BY ledger_index",
    // Shares the work of the reconcilers between replicas: an operation belongs to one for a minute, after which any replica tries again,
    // since the first may have died. Each is given out once in that time, so that operations that cannot finish do not keep others from
    // their turn. At most 256 are taken at once, so that others are left for the other replicas.
    //
    // Tenants share what is taken, those first whose operations are due for longest. Rows that another replica locks are skipped: it is
    // taking them. If it has just taken one that this statement does not see yet, the row is read again once it is locked, and is no longer
    // due. The wait is in the result, and ends with the taking: a change while the operation is taken is one of the replica that took it.
    owing: concat!(
        tenants_that_owe!(),
        ", turns AS MATERIALIZED (
            SELECT tenants.tenant FROM tenants CROSS JOIN LATERAL (
                SELECT due_ms FROM operations WHERE ",
        may_be_taken!(),
        " ORDER BY due_ms LIMIT 1) AS first ORDER BY first.due_ms, tenants.tenant LIMIT least($4, 256)),
        due AS (
            SELECT found.* FROM turns AS tenants CROSS JOIN LATERAL (
                SELECT operation_id, due_ms, waited_ms FROM operations WHERE ",
        may_be_taken!(),
        " ORDER BY due_ms, updated_at_ms
                LIMIT least($3, greatest(1, least($4, 256) / greatest(1, (SELECT count(*) FROM turns))))
                FOR UPDATE SKIP LOCKED) AS found),
        taken AS (
            UPDATE operations SET due_ms = ",
        now!(),
        " + 60000, waited_ms = 0 FROM due WHERE operations.operation_id = due.operation_id
            RETURNING operations.operation_id, tenant, updated_at_ms, due.due_ms AS was_due_ms, due.waited_ms AS waited_ms)
        SELECT operation_id, tenant, waited_ms FROM taken ORDER BY was_due_ms, updated_at_ms"
    ),
    // Rows that a commit locks are skipped: they change, so they do not wait. The server's clock counts.
    defer: concat!(
        "UPDATE operations SET due_ms = ",
        now!(),
        " + deferred.wait_ms, waited_ms = deferred.waited_ms FROM (
            SELECT operation_id AS id, (deferred ->> 'wait_ms')::bigint AS wait_ms,
                (deferred ->> 'waited_ms')::bigint AS waited_ms FROM operations
            JOIN json_array_elements($1::json) AS deferred ON operation_id = decode(deferred ->> 'id', 'hex')
            FOR UPDATE OF operations SKIP LOCKED) AS deferred WHERE operation_id = deferred.id"
    ),
    database_bytes: "SELECT pg_database_size(current_database())",
    counters: "row_counters",
    counts_rows: false,
    nodes: "SELECT (node ->> 0)::bigint, (node ->> 1)::bigint, decode(node ->> 2, 'hex')
        FROM json_array_elements($nodes::json) AS node",
    json: "::jsonb",
    is_json: "TRUE",
    intent_kind: "(body::jsonb #>> '{intent,kind}')",
    key_created_at: "((body::jsonb ->> 'created_at_ms')::bigint)",
    key_quorum: "(CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
         THEN (body::jsonb ->> 'threshold') || ' ' || (body::jsonb ->> 'participants') END)",
    first_wrote: "EXISTS (SELECT 1 FROM part_0)",
    join,
};

/// Parts of one statement, all of which see the database as it was before.
fn join(parts: &[Part]) -> String {
    let named = parts.iter().enumerate().map(|(index, part)| format!("part_{index} AS ({})", part.sql));
    let returning = parts.iter().enumerate().filter(|(index, part)| *index == 0 || part.returns);
    let returning = returning.map(|(index, _)| format!("SELECT * FROM part_{index}"));
    let (named, returning): (Vec<_>, Vec<_>) = (named.collect(), returning.collect());
    format!("WITH {} {}", named.join(", "), returning.join(" UNION ALL "))
}

impl Connection for PgConnection {
    fn statements(&self) -> &'static Statements {
        &STATEMENTS
    }

    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let query = bound.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, cell| match cell {
            // Fractions are never bound.
            Cell::Null | Cell::Real => query.bind(None::<&[u8]>),
            Cell::Integer(number) => query.bind(*number),
            Cell::Text(bytes) => match str::from_utf8(bytes) {
                Ok(text) => query.bind(text),
                Err(_) => query.bind(bytes.as_slice()),
            },
            Cell::Blob(bytes) => query.bind(bytes.as_slice()),
        });
        read(&query.fetch_all(self).await?)
    }
}

/// As [`Connection::rows`], with arguments that are no cells.
pub(super) async fn rows_of(
    conn: &mut PgConnection,
    sql: &str,
    arguments: PgArguments,
) -> Result<Vec<Row>, sqlx::Error> {
    read(&sqlx::query_with(AssertSqlSafe(sql), arguments).fetch_all(conn).await?)
}

fn read(rows: &[PgRow]) -> Result<Vec<Row>, sqlx::Error> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let names: Names = first.columns().iter().map(Column::name).collect();
    let row = |stored: &PgRow| {
        let cells = (0..stored.len()).map(|index| cell(stored.try_get_raw(index)?));
        Ok(Row::new(names.clone(), cells.collect::<Result<_, sqlx::Error>>()?))
    };
    rows.iter().map(row).collect()
}

fn cell(value: PgValueRef<'_>) -> Result<Cell, sqlx::Error> {
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let kind = value.type_info().into_owned();
    let cell = match kind.name() {
        "INT8" => <i64 as Decode<Postgres>>::decode(value).map(Cell::Integer),
        "BOOL" => <bool as Decode<Postgres>>::decode(value).map(Cell::from),
        "TEXT" | "NAME" => <&str as Decode<Postgres>>::decode(value).map(Cell::from),
        "BYTEA" => <Vec<u8> as Decode<Postgres>>::decode(value).map(Cell::Blob),
        _ => Ok(Cell::Real),
    };
    cell.map_err(sqlx::Error::Decode)
}
