//! The SQL of SQLite, and how its connections read rows.

use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row};
use crate::sql::statements::{Part, Statements, tenants_that_owe};
use gateway_sqlite::BETWEEN_STATEMENTS;

/// Condition on the first event of an operation that may change a key. It must be the same text as in the indexes
/// `events_changing_key` and `events_making_successor`: otherwise SQLite would not use them.
macro_rules! opens_a_change {
    () => {
        "seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action')"
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
    log_nodes: "SELECT level, position, hash FROM json_each($1) AS node
        CROSS JOIN ledger_nodes ON level = node.value >> 57 AND position = node.value & ((1 << 57) - 1)
        UNION ALL SELECT 0, ledger_index, hash FROM json_each($2) AS leaf
        CROSS JOIN ledger_leaves ON ledger_index = leaf.value",
    events_at: "SELECT operation_id, body FROM events
        WHERE ledger_index IN (SELECT value FROM json_each($1)) ORDER BY ledger_index",
    owing: concat!(
        tenants_that_owe!(),
        " SELECT operation_id, operations.tenant AS tenant, waited_ms FROM tenants CROSS JOIN operations
        WHERE operations.rowid IN (SELECT due.rowid FROM operations AS due
            WHERE due.owes = 1 AND due.tenant = tenants.tenant AND (due.due_ms <= $1 OR due.due_ms > $2)
            ORDER BY due.due_ms, due.updated_at_ms LIMIT $3)
        ORDER BY due_ms, updated_at_ms LIMIT $4"
    ),
    defer: "UPDATE operations SET due_ms = $2 + (value ->> 'wait_ms'), waited_ms = value ->> 'waited_ms'
        FROM json_each($1) WHERE operation_id = unhex(value ->> 'id')",
    database_bytes: "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    counters: "sqlite_sequence",
    counts_rows: true,
    nodes: "SELECT value ->> 0, value ->> 1, unhex(value ->> 2) FROM json_each($nodes)",
    json: "",
    is_json: "json_valid(body)",
    intent_kind: "(body ->> '$.intent.kind')",
    key_created_at: "(body ->> '$.created_at_ms')",
    key_quorum: "CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
         THEN (body ->> '$.threshold') || ' ' || (body ->> '$.participants') END",
    // Of the statement before, whose rows are those of the first one if each of them wrote some.
    first_wrote: "changes() > 0",
    join,
};

/// One after the other. Each returns its rows.
fn join(parts: &[Part]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| part.sql.as_str()).collect();
    parts.join(BETWEEN_STATEMENTS)
}

impl Connection for gateway_sqlite::Connection {
    fn statements(&self) -> &'static Statements {
        &STATEMENTS
    }

    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        Self::rows(self, sql, bound).await
    }
}
