//! Every policy decision on record, read beside a gateway that may be running.
//!
//! They are in three places: the events of operations that they moved, the refusals and faults that moved nothing, and
//! the previews. Each place only grows at its end, so a [`Cursor`] names how far all three were read.

use crate::error::OpenError;
use crate::sqlite::SqliteReader;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::policy::{Input, Outcome};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::StoredBundle;
use std::fmt;
use std::str::FromStr;

/// One decision on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Where it is kept.
    pub place: Place,
    /// The operation it was about; none for a preview.
    pub operation_id: Option<OperationId>,
    /// When.
    pub at_ms: EpochMs,
    /// What was asked.
    pub input: Input,
    /// What was answered.
    pub outcome: Outcome,
    /// Whether the record still has the hash it was written with.
    pub is_intact: bool,
}

/// Where a decision is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In an operation's event.
    Event {
        /// The event's place in the log of all events, from 0.
        ledger_index: u64,
        /// The event's number within its operation, from 1.
        seq: u64,
    },
    /// Among the refusals and faults, from 1.
    Refusal(u64),
    /// Among the previews, from 1.
    Preview(u64),
}

/// How far the three places were read. The default is the beginning; what is read after a cursor never changes but for
/// previews, of which the oldest are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Events read.
    pub n_events: u64,
    /// The last refusal read.
    pub refusal: u64,
    /// The last preview read.
    pub preview: u64,
}

/// The text is not three whole numbers separated by dots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be three whole numbers separated by dots, as an export prints them")]
pub struct InvalidCursor;

impl Cursor {
    /// The cursor after one more decision.
    #[must_use]
    pub const fn after(self, place: Place) -> Self {
        match place {
            Place::Event { ledger_index, .. } => Self { n_events: ledger_index.saturating_add(1), ..self },
            Place::Refusal(refusal) => Self { refusal, ..self },
            Place::Preview(preview) => Self { preview, ..self },
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.n_events, self.refusal, self.preview)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let numbers: Vec<u64> =
            text.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| InvalidCursor)?;
        let [n_events, refusal, preview] = numbers[..] else { return Err(InvalidCursor) };
        Ok(Self { n_events, refusal, preview })
    }
}

/// The decisions of a store, for tools beside the gateway. It reads only.
#[derive(Debug)]
pub struct Decisions {
    backend: SqliteReader,
}

impl Decisions {
    /// Opens the database at `location`, as [`Store::open`](crate::Store::open) reads it. A gateway may have it open.
    ///
    /// # Errors
    /// [`OpenError`]: there is none, it is another program's or release's, or it can not be read.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(Self { backend: SqliteReader::open(location).await? })
    }

    /// At most `n_max` decisions after the cursor: events, then refusals, then previews, each oldest first. Fewer only at
    /// the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store does not answer, or has a record that can not be read.
    pub async fn page(&self, after: Cursor, n_max: usize) -> Result<Vec<Recorded>, Unavailable> {
        let mut found = self.backend.evaluations_after(after.n_events, n_max).await?;
        found.extend(self.backend.refusals_after(after.refusal, n_max.saturating_sub(found.len())).await?);
        found.extend(self.backend.previews_after(after.preview, n_max.saturating_sub(found.len())).await?);
        Ok(found)
    }

    /// The `n_max` latest decisions by their instants, oldest first.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub async fn latest(&self, n_max: usize) -> Result<Vec<Recorded>, Unavailable> {
        let mut found = self.backend.evaluations_latest(n_max).await?;
        found.extend(self.backend.refusals_latest(n_max).await?);
        found.extend(self.backend.previews_latest(n_max).await?);
        found.sort_by_key(|decision| (decision.at_ms, decision.place));
        Ok(found.split_off(found.len().saturating_sub(n_max)))
    }

    /// The decisions in an operation's events, oldest first; none when there is no such operation.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub async fn of_operation(&self, id: OperationId) -> Result<Vec<Recorded>, Unavailable> {
        self.backend.evaluations_of(id).await
    }

    /// One refusal or fault.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub async fn refusal(&self, index: u64) -> Result<Option<Recorded>, Unavailable> {
        let found = self.backend.refusals_after(index.saturating_sub(1), 1).await?;
        Ok(found.into_iter().find(|decision| decision.place == Place::Refusal(index)))
    }

    /// One preview, while it is kept.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub async fn preview(&self, index: u64) -> Result<Option<Recorded>, Unavailable> {
        let found = self.backend.previews_after(index.saturating_sub(1), 1).await?;
        Ok(found.into_iter().find(|decision| decision.place == Place::Preview(index)))
    }

    /// The files of a bundle that was active once. Nothing about them is believed yet.
    ///
    /// # Errors
    /// [`Unavailable`] when the store does not answer.
    pub async fn bundle(&self, hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
        self.backend.bundle(hash).await
    }

    /// Closes the connection.
    pub async fn close(&self) {
        self.backend.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_printed() {
        let cursor = Cursor { n_events: 7, refusal: 0, preview: u64::MAX };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in ["", "7", "1.2", "1.2.3.4", "1.2.x", "1.2.-3", " 1.2.3"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(InvalidCursor), "{wrong}");
        }
    }
}
