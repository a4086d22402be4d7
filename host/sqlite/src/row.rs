//! Values and rows as the database stores them, whatever their types: a damaged row can be read and reported too.

use std::fmt;
use std::sync::Arc;

/// A value of a column, or of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A number.
    Integer(i64),
    /// A floating-point number, which no column of ours holds. Its value is not kept.
    Real,
    /// Text as bytes, because SQLite also stores text that is not valid UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Integer(i64::from(number))
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

impl From<&[u8]> for Cell {
    fn from(bytes: &[u8]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
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

/// A type that a column is read as, which may borrow from it.
pub trait FromCell<'c>: Sized {
    /// The value; `None` for one of another type or range.
    fn from_cell(cell: &'c Cell) -> Option<Self>;
}

impl FromCell<'_> for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Integer(number) => Some(*number),
            Cell::Null | Cell::Real | Cell::Text(_) | Cell::Blob(_) => None,
        }
    }
}

impl FromCell<'_> for u32 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).and_then(|number| number.try_into().ok())
    }
}

impl FromCell<'_> for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl<'c> FromCell<'c> for &'c str {
    fn from_cell(cell: &'c Cell) -> Option<Self> {
        match cell {
            Cell::Text(bytes) => str::from_utf8(bytes).ok(),
            Cell::Null | Cell::Real | Cell::Integer(_) | Cell::Blob(_) => None,
        }
    }
}

impl FromCell<'_> for String {
    fn from_cell(cell: &Cell) -> Option<Self> {
        <&str>::from_cell(cell).map(str::to_owned)
    }
}

impl<'c> FromCell<'c> for &'c [u8] {
    fn from_cell(cell: &'c Cell) -> Option<Self> {
        match cell {
            Cell::Blob(bytes) => Some(bytes),
            Cell::Null | Cell::Real | Cell::Integer(_) | Cell::Text(_) => None,
        }
    }
}

impl FromCell<'_> for Vec<u8> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        <&[u8]>::from_cell(cell).map(<[u8]>::to_vec)
    }
}

impl<'c, T: FromCell<'c>> FromCell<'c> for Option<T> {
    fn from_cell(cell: &'c Cell) -> Option<Self> {
        if *cell == Cell::Null { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

/// The names of the columns of rows, in one text.
#[derive(Clone, Debug)]
pub struct Names(Arc<str>);

/// After each name: no SQL text has it, so no name does.
const END: char = '\0';

impl<'n> FromIterator<&'n str> for Names {
    fn from_iter<I: IntoIterator<Item = &'n str>>(names: I) -> Self {
        let mut text = String::new();
        for name in names {
            text.extend([name, "\0"]);
        }
        Self(text.into())
    }
}

impl Names {
    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(END)
    }
}

/// A row whose columns are found by name.
#[derive(Clone, Debug)]
pub struct Row {
    names: Names,
    cells: Vec<Cell>,
}

impl Row {
    /// A row of columns with these names.
    pub const fn new(names: Names, cells: Vec<Cell>) -> Self {
        Self { names, cells }
    }

    /// The columns with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.names.iter().zip(&self.cells)
    }

    /// The value of a column; NULL if there is no such column.
    pub fn cell(&self, name: &str) -> &Cell {
        self.iter().find(|(found, _)| *found == name).map_or(&Cell::Null, |(_, cell)| cell)
    }

    /// The number in a column; `None` if it holds none.
    pub fn integer(&self, name: &str) -> Option<i64> {
        i64::from_cell(self.cell(name))
    }

    /// The text in a column; `None` if it holds none.
    pub fn text(&self, name: &str) -> Option<&str> {
        FromCell::from_cell(self.cell(name))
    }

    /// The bytes in a column; `None` if it holds none.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        FromCell::from_cell(self.cell(name))
    }

    /// The names and values of these columns, by which a person finds the row.
    pub fn named(&self, names: &[&str]) -> String {
        let named: Vec<_> = names.iter().map(|name| format!("{name} {}", self.cell(name))).collect();
        named.join(", ")
    }

    /// The columns that differ from the expected ones, quoted and separated by commas. A column that is not expected
    /// differs, unless another check compares it (`elsewhere`).
    pub fn differences(&self, expected: &[(&str, Cell)], elsewhere: &[&str]) -> Option<String> {
        let expected = |name: &str| expected.iter().find(|(listed, _)| *listed == name).map(|(_, cell)| cell);
        let differing =
            self.iter().filter(|(name, cell)| !elsewhere.contains(name) && expected(name) != Some(*cell));
        let names: Vec<_> = differing.map(|(name, _)| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The value of a column that always has this type.
    ///
    /// # Errors
    /// [`sqlx::Error::Decode`], which names the column, for a value of another type.
    pub fn get<'c, T: FromCell<'c>>(&'c self, name: &str) -> Result<T, sqlx::Error> {
        T::from_cell(self.cell(name)).ok_or_else(|| other_type(name))
    }

    /// The value of the column at this index, from 0, for a column without a name.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn at<'c, T: FromCell<'c>>(&'c self, index: usize) -> Result<T, sqlx::Error> {
        let cell = self.cells.get(index).unwrap_or(&Cell::Null);
        T::from_cell(cell).ok_or_else(|| other_type(self.names.iter().nth(index).unwrap_or_default()))
    }
}

fn other_type(name: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the column `{name}` has a value of another type").into())
}
