//! The node's tables as a check reads them: their order and keys, where a check continues, and the damage that it finds.

use gateway_domain::ids::{Hex32, KeyId};
use gateway_sqlite::{Cell, FromCell as _, Row};
use std::fmt;

/// Damage in a node's database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The table. `database` means the file as a whole, and `sqlite_schema` the schema.
    pub table: &'static str,
    /// The row's primary key, as `column value`; empty for the table as a whole.
    pub row: String,
    /// What is wrong, for people. Contains no secret.
    pub what: String,
    /// What the damage affects.
    pub scope: Scope,
}

/// The part of a node that damage affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole node.
    Node,
    /// Its share of this key.
    Key(KeyId),
    /// Its records of operations, not its shares.
    Records,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, row, what, .. } = self;
        if row.is_empty() { write!(f, "{table}: {what}") } else { write!(f, "{table}, {row}: {what}") }
    }
}

/// The node's tables, in the order in which a round checks them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Table {
    #[default]
    Node,
    RolledBack,
    Share,
    Operation,
    Statement,
    Effect,
    Consumed,
    Ceremony,
    LogEntry,
    Bundle,
    BundleFile,
    Document,
    Spending,
    SpendingSums,
}

impl Table {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::RolledBack => "rolled_back",
            Self::Share => "share",
            Self::Operation => "operation",
            Self::Statement => "statement",
            Self::Effect => "effect",
            Self::Consumed => "consumed",
            Self::Ceremony => "ceremony",
            Self::LogEntry => "log_entry",
            Self::Bundle => "bundle",
            Self::BundleFile => "bundle_file",
            Self::Document => "document",
            Self::Spending => "spending",
            Self::SpendingSums => "spending_sums",
        }
    }

    /// The columns of the primary key.
    pub(crate) const fn key(self) -> &'static [&'static str] {
        match self {
            Self::Node | Self::RolledBack => &["one"],
            Self::Share => &["key_id", "epoch"],
            Self::Operation | Self::Ceremony | Self::Spending => &["operation_id"],
            Self::Statement => &["statement_index"],
            Self::Effect => &["effect_id"],
            Self::Consumed => &["operation_id", "attempt"],
            Self::LogEntry => &["log_index"],
            Self::Bundle => &["bundle_hash"],
            Self::BundleFile => &["bundle_hash", "name"],
            Self::Document => &["name"],
            Self::SpendingSums => &["tenant", "currency", "party", "name", "minute"],
        }
    }

    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::Node => Some(Self::RolledBack),
            Self::RolledBack => Some(Self::Share),
            Self::Share => Some(Self::Operation),
            Self::Operation => Some(Self::Statement),
            Self::Statement => Some(Self::Effect),
            Self::Effect => Some(Self::Consumed),
            Self::Consumed => Some(Self::Ceremony),
            Self::Ceremony => Some(Self::LogEntry),
            Self::LogEntry => Some(Self::Bundle),
            Self::Bundle => Some(Self::BundleFile),
            Self::BundleFile => Some(Self::Document),
            Self::Document => Some(Self::Spending),
            Self::Spending => Some(Self::SpendingSums),
            Self::SpendingSums => None,
        }
    }

    /// Whether this column of a primary key is a number. The others are text.
    pub(crate) fn is_number(column: &str) -> bool {
        matches!(column, "one" | "statement_index" | "attempt" | "log_index" | "party" | "minute")
    }

    /// The row's primary key. Text may be invalid UTF-8.
    pub(crate) fn key_of(self, row: &Row) -> Vec<Cell> {
        let part = |column: &&str| match row.cell(column) {
            cell if Self::is_number(column) => Cell::Integer(i64::from_cell(cell).unwrap_or_default()),
            Cell::Text(bytes) | Cell::Blob(bytes) => Cell::Text(bytes.clone()),
            Cell::Null | Cell::Integer(_) | Cell::Real => Cell::Text(Vec::new()),
        };
        self.key().iter().map(part).collect()
    }

    /// The row's primary key as `column value`, for people. Text with other than visible ASCII characters is quoted.
    pub(crate) fn describe_key(self, row: &Row) -> String {
        let shown = |(column, cell): (&&str, Cell)| match &cell {
            Cell::Text(bytes) if bytes.iter().all(u8::is_ascii_graphic) => {
                format!("{column} {}", String::from_utf8_lossy(bytes))
            }
            Cell::Null | Cell::Integer(_) | Cell::Real | Cell::Text(_) | Cell::Blob(_) => {
                format!("{column} {cell}")
            }
        };
        self.key().iter().zip(self.key_of(row)).map(shown).collect::<Vec<_>>().join(", ")
    }
}

/// Where the check continues. The default is the first row.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    pub(crate) table: Table,
    /// The primary key of the last checked row of the table; `None` before its first row.
    pub(crate) after: Option<Vec<Cell>>,
}

impl Cursor {
    /// Whether the next row is a share, or one of those before them, which concern the whole node.
    pub(crate) fn is_of_shares(&self) -> bool {
        matches!(self.table, Table::Node | Table::RolledBack | Table::Share)
    }
}

/// The hash in a column; `None` if it holds none.
pub(crate) fn hash(row: &Row, column: &str) -> Option<Hex32> {
    row.text(column)?.parse().ok()
}

/// The column `attempt`; attempts are numbered from 1.
pub(crate) fn attempt(row: &Row) -> Option<u32> {
    row.integer("attempt").and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
}

/// Whether SQLite reports a corrupt file (sqlite.org/rescode.html).
pub(crate) fn is_corrupt(error: &sqlx::Error) -> bool {
    const CORRUPT: i32 = 11;
    const NOTADB: i32 = 26;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    matches!(code.map(|code| code & 0xff), Some(CORRUPT | NOTADB))
}
