//! Values as SQLite stores them.

use crate::error::{NodeError, Stop};
use gateway_domain::ids::Hex32;
use gateway_sqlite::Row;

/// A position or size as a column.
pub(crate) fn column(number: u64) -> Result<i64, NodeError> {
    i64::try_from(number).map_err(NodeError::damaged)
}

/// A time or sequence as a column. One that is too large becomes the largest.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The 32 bytes in a column; `None` for NULL.
pub(crate) fn hash(row: &Row, name: &str) -> Result<Option<Hex32>, Stop> {
    let text: Option<&str> = row.get(name)?;
    Ok(text.map(parse_hash).transpose()?)
}

/// Parses 32 bytes in hexadecimal from a column.
pub(crate) fn parse_hash(text: &str) -> Result<Hex32, NodeError> {
    text.parse().map_err(NodeError::damaged)
}
