//! The node's tables as a check reads them: their order and keys, rows with values of any type, where a check continues, and the
//! damage that it finds.

use gateway_domain::ids::{Hex32, KeyId};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
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
    Spending,
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
            Self::Spending => "spending",
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
            Self::BundleFile => Some(Self::Spending),
            Self::Spending => None,
        }
    }

    /// Whether this column of a primary key is a number.
    fn is_number(column: &str) -> bool {
        matches!(column, "one" | "statement_index" | "attempt" | "log_index")
    }
}

/// Where the check continues. The default is the first row.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    pub(crate) table: Table,
    /// The primary key of the last checked row of the table; `None` before its first row.
    pub(crate) after: Option<Vec<Key>>,
}

impl Cursor {
    /// Whether the next row is a share, or one of those before them, which concern the whole node.
    pub(crate) fn is_of_shares(&self) -> bool {
        matches!(self.table, Table::Node | Table::RolledBack | Table::Share)
    }
}

/// A column of a row's primary key. Text may be invalid UTF-8.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    Number(i64),
    Text(Vec<u8>),
}

/// A row whose values are read without a check of their types.
pub(crate) struct RawRow(SqliteRow);

impl RawRow {
    pub(crate) const fn new(row: SqliteRow) -> Self {
        Self(row)
    }

    pub(crate) fn bytes(&self, column: &str) -> Option<Vec<u8>> {
        self.0.try_get_unchecked::<Option<Vec<u8>>, _>(column).ok().flatten()
    }

    pub(crate) fn text(&self, column: &str) -> Option<String> {
        self.bytes(column).and_then(|bytes| String::from_utf8(bytes).ok())
    }

    pub(crate) fn number(&self, column: &str) -> Option<i64> {
        self.0.try_get_unchecked::<Option<i64>, _>(column).ok().flatten()
    }

    /// The column `attempt`; attempts are numbered from 1.
    pub(crate) fn attempt(&self) -> Option<u32> {
        self.number("attempt").and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
    }

    pub(crate) fn hash(&self, column: &str) -> Option<Hex32> {
        self.text(column).and_then(|text| text.parse().ok())
    }

    /// The row's primary key as `column value`, for people. Text with other than visible ASCII characters is quoted.
    pub(crate) fn describe_key(&self, table: Table) -> String {
        let shown = |column: &&str| {
            if Table::is_number(column) {
                return format!("{column} {}", self.number(column).unwrap_or_default());
            }
            let bytes = self.bytes(column).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            if text.bytes().all(|byte| byte.is_ascii_graphic()) {
                format!("{column} {text}")
            } else {
                format!("{column} {text:?}")
            }
        };
        table.key().iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn key(&self, table: Table) -> Vec<Key> {
        let part = |column: &&str| {
            if Table::is_number(column) {
                Key::Number(self.number(column).unwrap_or_default())
            } else {
                Key::Text(self.bytes(column).unwrap_or_default())
            }
        };
        table.key().iter().map(part).collect()
    }
}

/// Whether SQLite reports a corrupt file (sqlite.org/rescode.html).
pub(crate) fn is_corrupt(error: &sqlx::Error) -> bool {
    const CORRUPT: i32 = 11;
    const NOTADB: i32 = 26;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    matches!(code.map(|code| code & 0xff), Some(CORRUPT | NOTADB))
}
