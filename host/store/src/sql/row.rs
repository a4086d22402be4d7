//! Rows with our types, and the values that their columns get or should have.

use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
pub(crate) use gateway_sqlite::{Cell, Names, Row};

/// A hash or an id as a column.
pub(crate) fn blob(hash: Hex32) -> Cell {
    Cell::Blob(hash.as_bytes().to_vec())
}

/// The bytes of an id; without one, no bytes, which sort before every id.
pub(crate) fn blob_or_first(id: Option<Hex32>) -> Cell {
    id.map_or(Cell::Blob(Vec::new()), blob)
}

/// Columns with hashes.
pub(crate) trait Hashes {
    /// The hash in a column; `None` if it holds none.
    fn hash(&self, name: &str) -> Option<Hex32>;
}

impl Hashes for Row {
    fn hash(&self, name: &str) -> Option<Hex32> {
        self.bytes(name).and_then(|bytes| bytes.try_into().ok()).map(Hex32::new)
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
