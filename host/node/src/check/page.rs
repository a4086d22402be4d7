//! Reads rows a page at a time, also rows with values of the wrong type.

use super::{Checker, Scope};
use crate::error::NodeError;
use gateway_domain::ids::Hex32;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

/// The node's tables, in the order in which a round checks them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Table {
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
    pub(super) const fn name(self) -> &'static str {
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
    const fn key(self) -> &'static [&'static str] {
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

    const fn next(self) -> Option<Self> {
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
    table: Table,
    /// The primary key of the last checked row of the table; `None` before its first row.
    after: Option<Vec<Key>>,
}

impl Cursor {
    /// Whether the next row is a share, or one of those before them, which concern the whole node.
    pub(super) fn is_of_shares(&self) -> bool {
        matches!(self.table, Table::Node | Table::RolledBack | Table::Share)
    }
}

/// A column of a row's primary key. Text may be invalid UTF-8.
#[derive(Clone, Debug)]
enum Key {
    Number(i64),
    Text(Vec<u8>),
}

/// A row whose values are read without a check of their types.
pub(super) struct RawRow(SqliteRow);

impl RawRow {
    pub(super) const fn new(row: SqliteRow) -> Self {
        Self(row)
    }

    pub(super) fn bytes(&self, column: &str) -> Option<Vec<u8>> {
        self.0.try_get_unchecked::<Option<Vec<u8>>, _>(column).ok().flatten()
    }

    pub(super) fn text(&self, column: &str) -> Option<String> {
        self.bytes(column).and_then(|bytes| String::from_utf8(bytes).ok())
    }

    pub(super) fn number(&self, column: &str) -> Option<i64> {
        self.0.try_get_unchecked::<Option<i64>, _>(column).ok().flatten()
    }

    /// The column `attempt`; attempts are numbered from 1.
    pub(super) fn attempt(&self) -> Option<u32> {
        self.number("attempt").and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
    }

    pub(super) fn hash(&self, column: &str) -> Option<Hex32> {
        self.text(column).and_then(|text| text.parse().ok())
    }

    /// The row's primary key as `column value`, for people. Text with other than visible ASCII characters is quoted.
    pub(super) fn describe_key(&self, table: Table) -> String {
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

    fn key(&self, table: Table) -> Vec<Key> {
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

impl Checker<'_> {
    /// Checks up to `n_max` rows of one table. Returns their number, and where to continue.
    pub(super) async fn check_page(
        &mut self,
        cursor: &Cursor,
        n_max: u32,
    ) -> Result<(u32, Option<Cursor>), NodeError> {
        let Cursor { table, after } = cursor;
        // A file can have megabytes.
        let n_max = if *table == Table::BundleFile { 1 } else { n_max };
        let next_table = table.next().map(|table| Cursor { table, after: None });
        let rows = match self.select(cursor, n_max).await {
            Ok(rows) => rows,
            Err(error) if is_corrupt(&error) => {
                let scope = if cursor.is_of_shares() { Scope::Node } else { Scope::Records };
                self.report(*table, String::new(), "cannot be read completely: the file is damaged", scope);
                return Ok((0, next_table));
            }
            Err(error) => return Err(error.into()),
        };
        if rows.is_empty() && after.is_none() && *table == Table::Node {
            self.report(*table, String::new(), "the row with the node's identity is missing", Scope::Node);
        }
        for row in &rows {
            self.check_row(*table, row).await?;
        }
        let n_rows = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let next = match rows.last() {
            Some(last) if n_rows >= n_max => Some(Cursor { table: *table, after: Some(last.key(*table)) }),
            Some(_) | None => next_table,
        };
        Ok((n_rows, next))
    }

    async fn select(&mut self, cursor: &Cursor, n_max: u32) -> Result<Vec<RawRow>, sqlx::Error> {
        let Cursor { table, after } = cursor;
        let columns = table.key().join(", ");
        let parameter = |(number, key): (usize, &Key)| match key {
            Key::Number(_) => format!("?{number}"),
            // Bytes that are not UTF-8 cannot be bound as text.
            Key::Text(_) => format!("CAST(?{number} AS TEXT)"),
        };
        let condition = after.as_ref().map(|after| {
            let parameters: Vec<_> = (1..).zip(after).map(parameter).collect();
            format!("WHERE ({columns}) > ({})", parameters.join(", "))
        });
        let (name, condition) = (table.name(), condition.unwrap_or_default());
        let sql = format!("SELECT * FROM {name} {condition} ORDER BY {columns} LIMIT {n_max}");
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for key in after.iter().flatten() {
            query = match key {
                Key::Number(number) => query.bind(*number),
                Key::Text(bytes) => query.bind(bytes.as_slice()),
            };
        }
        Ok(query.fetch_all(&mut *self.conn).await?.into_iter().map(RawRow).collect())
    }
}

/// Whether SQLite reports a corrupt file (sqlite.org/rescode.html).
pub(super) fn is_corrupt(error: &sqlx::Error) -> bool {
    const CORRUPT: i32 = 11;
    const NOTADB: i32 = 26;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    matches!(code.map(|code| code & 0xff), Some(CORRUPT | NOTADB))
}
