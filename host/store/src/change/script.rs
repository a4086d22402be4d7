//! Several writes as one text, because each round trip to a server keeps the log locked for longer.
//!
//! The first write has all conditions, and the others write only if it wrote something. So a script whose conditions do not hold writes
//! nothing, and needs no rollback.

use crate::record::frontier::Appended;
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Columns, Row};
use crate::sql::statements::{Part, Statements};
use serde_json::json;

/// Writes with their bound values.
pub(super) struct Script {
    statements: &'static Statements,
    parts: Vec<Part>,
    bound: Vec<Cell>,
}

impl Script {
    pub(super) const fn new(statements: &'static Statements) -> Self {
        Self { statements, parts: Vec::new(), bound: Vec::new() }
    }

    /// Binds a value, and returns its parameter.
    pub(super) fn bind(&mut self, value: impl Into<Cell>) -> String {
        self.bound.push(value.into());
        format!("${}", self.bound.len())
    }

    /// The names of columns, and their parameters.
    pub(super) fn bind_all(
        &mut self,
        columns: impl IntoIterator<Item = (&'static str, Cell)>,
    ) -> (Vec<&'static str>, Vec<String>) {
        columns.into_iter().map(|(name, cell)| (name, self.bind(cell))).unzip()
    }

    /// Adds a write. The first one must return rows.
    pub(super) fn add(&mut self, sql: String) {
        self.parts.push(Part { sql, returns: false });
    }

    /// Adds a write that returns rows, which are wanted.
    pub(super) fn add_returning(&mut self, sql: String) {
        self.parts.push(Part { sql, returns: true });
    }

    /// Adds the insert of a row into a table, on this condition. `end` says what else: of a conflict, and what is returned.
    pub(super) fn insert_if(
        &mut self,
        condition: &str,
        table: &str,
        columns: impl IntoIterator<Item = (&'static str, Cell)>,
        end: &str,
    ) {
        let (names, values) = self.bind_all(columns);
        let (names, values) = (names.join(", "), values.join(", "));
        let sql = format!("INSERT INTO {table} ({names}) SELECT {values} WHERE {condition}{end}");
        self.add(sql);
    }

    /// Adds the insert of a row, if the first write wrote something.
    pub(super) fn insert(
        &mut self,
        table: &str,
        columns: impl IntoIterator<Item = (&'static str, Cell)>,
        end: &str,
    ) {
        self.insert_if(self.statements.first_wrote, table, columns, end);
    }

    /// Adds the insert of rows with the same columns, of which there is at least one.
    pub(super) fn insert_all(&mut self, table: &str, rows: impl IntoIterator<Item = Columns>, end: &str) {
        let rows = rows.into_iter().map(|columns| self.bind_all(columns));
        let (names, rows): (Vec<_>, Vec<_>) =
            rows.map(|(names, values)| (names.join(", "), format!("({})", values.join(", ")))).unzip();
        let (names, rows) = (names.first().cloned().unwrap_or_default(), rows.join(", "));
        let sql = format!("INSERT INTO {table} ({names}) VALUES {rows}{end}");
        self.add(sql);
    }

    /// Adds the inner nodes of the log that an append completes.
    pub(super) fn nodes(&mut self, appended: &Appended) {
        if appended.nodes.is_empty() {
            return;
        }
        let nodes: Vec<_> =
            appended.nodes.iter().map(|node| json!([node.level, node.index, node.hash])).collect();
        let nodes = self.bind(json!(nodes).to_string());
        let rows = self.statements.nodes.replace("$nodes", &nodes);
        let is_written = self.statements.first_wrote;
        self.add(format!("INSERT INTO ledger_nodes (level, position, hash) {rows} WHERE {is_written}"));
    }

    /// Notes the last row of a numbered table, unless the database does.
    pub(super) fn count(&mut self, table: &'static str, last: i64) {
        if !self.statements.counts_rows {
            let row = [("name", table.into()), ("seq", last.into())];
            self.insert(
                self.statements.counters,
                row,
                " ON CONFLICT (name) DO UPDATE SET seq = excluded.seq",
            );
        }
    }

    /// Runs the writes. Without rows, the first one wrote nothing.
    pub(super) async fn run<C: Connection>(self, conn: &mut C) -> Result<Vec<Row>, sqlx::Error> {
        conn.rows(&(self.statements.join)(&self.parts), &self.bound).await
    }
}

/// The index of a numbered table's next row. Writes run one after another, so each sees the rows of the ones before.
pub(super) async fn next_index<C: Connection>(conn: &mut C, table: &'static str) -> Result<i64, sqlx::Error> {
    let counted = conn.statements().counted();
    let last = conn.rows(&counted, &[table.into()]).await?;
    Ok(last.first().and_then(|row| row.integer("seq")).unwrap_or_default().saturating_add(1))
}
