//! Stored rows with any content, and the values that their columns get or should have.

use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use std::fmt;
use std::sync::Arc;

/// A value as SQLite stores it. Text is kept as bytes, because it may not be valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    /// A floating-point number, which no column of this schema holds. Its value is not kept.
    Real,
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Cell {
    /// The bytes of an id; without one, no bytes, which sort before every id.
    pub(crate) fn blob(id: Option<Hex32>) -> Self {
        Self::Blob(id.map(|id| id.as_bytes().to_vec()).unwrap_or_default())
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Cell {
    fn from(is: bool) -> Self {
        Self::Integer(i64::from(is))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<Hex32> for Cell {
    fn from(hash: Hex32) -> Self {
        Self::Blob(hash.as_bytes().to_vec())
    }
}

/// The value in a message that names a row by its key columns. Not used for bodies.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real => f.write_str("a fraction"),
            Self::Text(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// A row whose columns are found by name.
#[derive(Debug)]
pub(crate) struct Row {
    names: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    pub(crate) const fn new(names: Arc<[String]>, cells: Vec<Cell>) -> Self {
        Self { names, cells }
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.names.iter().map(String::as_str).zip(&self.cells)
    }

    /// The value of a column; NULL if there is no such column.
    pub(crate) fn cell(&self, name: &str) -> &Cell {
        self.iter().find(|(found, _)| *found == name).map_or(&Cell::Null, |(_, cell)| cell)
    }

    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Cell::Integer(number) => Some(*number),
            Cell::Null | Cell::Real | Cell::Text(_) | Cell::Blob(_) => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.cell(name) {
            Cell::Text(bytes) => str::from_utf8(bytes).ok(),
            Cell::Null | Cell::Real | Cell::Integer(_) | Cell::Blob(_) => None,
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.cell(name) {
            Cell::Blob(bytes) => Some(bytes),
            Cell::Null | Cell::Real | Cell::Integer(_) | Cell::Text(_) => None,
        }
    }

    pub(crate) fn hash(&self, name: &str) -> Option<Hex32> {
        self.bytes(name).and_then(|bytes| bytes.try_into().ok()).map(Hex32::new)
    }

    /// The names and values of these columns, by which a person finds the row.
    pub(crate) fn named(&self, names: &[&str]) -> String {
        let named: Vec<_> = names.iter().map(|name| format!("{name} {}", self.cell(name))).collect();
        named.join(", ")
    }

    /// The columns that differ from the expected ones, quoted and separated by commas. A column that is not expected
    /// differs, unless another check compares it (`elsewhere`).
    pub(crate) fn differences(&self, expected: &[(&str, Cell)], elsewhere: &[&str]) -> Option<String> {
        let expected = |name: &str| expected.iter().find(|(listed, _)| *listed == name).map(|(_, cell)| cell);
        let differing =
            self.iter().filter(|(name, cell)| !elsewhere.contains(name) && expected(name) != Some(*cell));
        let names: Vec<_> = differing.map(|(name, _)| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Columns of one row, by name.
pub(crate) type Columns = Vec<(&'static str, Cell)>;

/// An instant as a column. Larger values are stored as `i64::MAX`.
pub(crate) fn instant(at: EpochMs) -> i64 {
    integer(at.0)
}

/// A column cannot hold more than `i64::MAX`; larger numbers are stored as that.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
