//! Several writes as one text, because each round trip to a server keeps the log locked for longer.
//!
//! The first write has all conditions, and the others write only if it wrote something. So a script whose conditions do not hold writes
//! nothing, and needs no rollback.

use crate::record::frontier::Appended;
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Columns, Row};
use crate::sql::statements::{Part, Statements};
use serde_json::json;
use std::fmt::{self, Display};

/// The parameter of a bound value.
#[derive(Clone, Copy)]
pub(super) struct Param(usize);

impl Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.0)
    }
}

/// Columns with the parameters of their values.
pub(super) struct Bound(Vec<(&'static str, Param)>);

impl Bound {
    /// The parameter of this column's value, if it is among them.
    pub(super) fn of(&self, column: &str) -> Option<Param> {
        self.0.iter().find(|(name, _)| *name == column).map(|(_, value)| *value)
    }

    /// The columns' names.
    pub(super) fn names(&self, between: &'static str) -> impl Display {
        fmt::from_fn(move |f| separated(f, between, &self.0, |f, (name, _)| f.write_str(name)))
    }

    /// The parameters of their values.
    pub(super) fn values(&self, between: &'static str) -> impl Display {
        fmt::from_fn(move |f| separated(f, between, &self.0, |f, (_, value)| value.fmt(f)))
    }

    /// `name = value` of each.
    pub(super) fn pairs(&self, between: &'static str) -> impl Display {
        fmt::from_fn(move |f| {
            separated(f, between, &self.0, |f, (name, value)| write!(f, "{name} = {value}"))
        })
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    between: &str,
    items: &[T],
    one: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(index, item)| {
        if index > 0 {
            f.write_str(between)?;
        }
        one(f, item)
    })
}

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
    pub(super) fn bind(&mut self, value: impl Into<Cell>) -> Param {
        self.bound.push(value.into());
        Param(self.bound.len())
    }

    /// Binds the values of columns.
    pub(super) fn bind_all(&mut self, columns: impl IntoIterator<Item = (&'static str, Cell)>) -> Bound {
        Bound(columns.into_iter().map(|(name, cell)| (name, self.bind(cell))).collect())
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
        let bound = self.bind_all(columns);
        let (names, values) = (bound.names(", "), bound.values(", "));
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
        let rows: Vec<_> = rows.into_iter().map(|columns| self.bind_all(columns)).collect();
        let names = fmt::from_fn(|f| rows.first().map_or(Ok(()), |row| row.names(", ").fmt(f)));
        let values =
            fmt::from_fn(|f| separated(f, ", ", &rows, |f, row| write!(f, "({})", row.values(", "))));
        let sql = format!("INSERT INTO {table} ({names}) VALUES {values}{end}");
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
        let rows = self.statements.nodes.replace("$nodes", &nodes.to_string());
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
