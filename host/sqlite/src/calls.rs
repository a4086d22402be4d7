//! Calls of SQLite on the calling thread.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use sqlx::error::{DatabaseError, ErrorKind};

use crate::row::{Cell, Names, Row};

/// Separates the statements of one text.
pub const BETWEEN_STATEMENTS: &str = ";\n";

/// Runs statements on the calling thread.
pub(crate) fn rows_of(
    conn: &rusqlite::Connection,
    sql: &str,
    bound: &[Cell],
) -> Result<Vec<Row>, rusqlite::Error> {
    let mut found = Vec::new();
    for sql in sql.split(BETWEEN_STATEMENTS) {
        let mut statement = conn.prepare_cached(sql)?;
        for index in 1..=statement.parameter_count() {
            // A number that this statement leaves out has no name.
            let number = statement.parameter_name(index).and_then(|name| name.get(1..)?.parse().ok());
            if let Some(value) = number.and_then(|number: usize| bound.get(number.checked_sub(1)?)) {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        let n_columns = statement.column_count();
        let mut names: Option<Names> = None;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let cells = (0..n_columns).map(|index| row.get_ref(index).map(Cell::from));
            let cells = cells.collect::<Result<_, _>>()?;
            let names = names.get_or_insert_with(|| row.as_ref().column_names().into_iter().collect());
            found.push(Row::new(names.clone(), cells));
        }
    }
    Ok(found)
}

impl ToSql for Cell {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, rusqlite::Error> {
        Ok(ToSqlOutput::Borrowed(match self {
            // Fractions are never bound.
            Self::Null | Self::Real => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(_) => Self::Real,
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

/// An error as sqlx has those of its own connections, which migrate.
pub(crate) fn fault(error: rusqlite::Error) -> sqlx::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            let message = message.unwrap_or_else(|| code.to_string());
            sqlx::Error::Database(Box::new(Fault { code: code.extended_code, message }))
        }
        other => sqlx::Error::Protocol(other.to_string()),
    }
}

/// SQLite's result code and message.
#[derive(Debug)]
struct Fault {
    code: i32,
    message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(code: {}) {}", self.code, self.message)
    }
}

impl StdError for Fault {}

impl DatabaseError for Fault {
    fn message(&self) -> &str {
        &self.message
    }

    /// The extended result code.
    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn kind(&self) -> ErrorKind {
        use rusqlite::ffi;
        match self.code {
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => ErrorKind::UniqueViolation,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ErrorKind::ForeignKeyViolation,
            ffi::SQLITE_CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            ffi::SQLITE_CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }
}
