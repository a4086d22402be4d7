//! Statements whose rows are bound as one array for each column.

use crate::postgres::sql::rows_of;
use crate::sql::row::{Cell, Columns, Row};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, PgConnection};
use std::fmt::Write as _;

/// Parts of one statement, what it returns at its end, and what is bound.
#[derive(Default)]
pub(super) struct Statement {
    parts: Vec<String>,
    pub(super) end: String,
    arguments: PgArguments,
}

impl Statement {
    /// Adds a part with this name.
    pub(super) fn part(&mut self, name: &str, sql: &str) {
        self.parts.push(format!("{name} AS ({sql})"));
    }

    /// Names these rows, and returns whether there are any.
    pub(super) fn rows(&mut self, name: &str, table: &Table<'_>) -> Result<bool, sqlx::Error> {
        if table.is_empty() {
            return Ok(false);
        }
        let mut arrays = String::new();
        for column in 0..table.names.len() {
            self.bind(table.rows.iter().map(|row| row.get(column).copied().unwrap_or(Value::Null)))?;
            let comma = if column == 0 { "" } else { ", " };
            let _infallible = write!(arrays, "{comma}${}", self.arguments.len());
        }
        let names = table.names.join(", ");
        self.parts.push(format!("{name} ({names}) AS MATERIALIZED (SELECT * FROM unnest({arrays}))"));
        Ok(true)
    }

    /// Binds a column as an array. Columns that are null in all rows hold bytes.
    fn bind<'v>(&mut self, column: impl Iterator<Item = Value<'v>> + Clone) -> Result<(), sqlx::Error> {
        let bound = match column.clone().find(|value| !matches!(value, Value::Null)) {
            Some(Value::Integer(_)) => self.arguments.add(column.map(Value::integer).collect::<Vec<_>>()),
            Some(Value::Text(_)) => self.arguments.add(column.map(Value::text).collect::<Vec<_>>()),
            Some(Value::Blob(_) | Value::Null) | None => {
                self.arguments.add(column.map(Value::bytes).collect::<Vec<_>>())
            }
        };
        bound.map_err(sqlx::Error::Encode)
    }

    /// Runs the parts, and returns the rows of the end.
    pub(super) async fn run(self, conn: &mut PgConnection) -> Result<Vec<Row>, sqlx::Error> {
        let Self { parts, end, arguments } = self;
        rows_of(conn, &format!("WITH RECURSIVE {} {end}", parts.join(", ")), arguments).await
    }
}

/// Rows with the same columns.
#[derive(Default)]
pub(super) struct Table<'v> {
    pub(super) names: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Value<'v>>>,
}

impl<'v> Table<'v> {
    pub(super) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = (&'static str, Value<'v>)>) {
        let (names, row) = row.into_iter().unzip();
        self.names = names;
        self.rows.push(row);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'v> {
    Null,
    Integer(i64),
    Text(&'v str),
    Blob(&'v [u8]),
}

impl<'v> Value<'v> {
    const fn integer(self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(number) } else { None }
    }

    const fn text(self) -> Option<&'v str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    const fn bytes(self) -> Option<&'v [u8]> {
        if let Self::Blob(bytes) = self { Some(bytes) } else { None }
    }
}

impl<'v> From<&'v Cell> for Value<'v> {
    fn from(cell: &'v Cell) -> Self {
        match cell {
            // No row of ours has a fraction.
            Cell::Null | Cell::Real => Self::Null,
            Cell::Integer(number) => Self::Integer(*number),
            Cell::Text(bytes) => str::from_utf8(bytes).map_or(Self::Blob(bytes), Self::Text),
            Cell::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

/// The columns of a row.
pub(super) fn values(columns: &Columns) -> impl Iterator<Item = (&'static str, Value<'_>)> {
    columns.iter().map(|(name, cell)| (*name, cell.into()))
}
