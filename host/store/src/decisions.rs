//! Recorded policy decisions, as tools read them, and a cursor over them.
//!
//! A decision is in one of three lists: in the event of the operation that it changed, in the refusals and faults
//! that changed no operation, or in the previews. Each list only grows at its end, so a [`Cursor`] holds the position
//! in all three.

mod view;

pub use view::Decisions;

use gateway_domain::ids::OperationId;
use gateway_domain::policy::{Input, Outcome};
use gateway_domain::time::EpochMs;
use std::fmt;
use std::str::FromStr;

/// A recorded policy decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDecision {
    /// The position of the record.
    pub position: DecisionPosition,
    /// The operation that was evaluated; `None` for a preview.
    pub operation_id: Option<OperationId>,
    /// The time of the evaluation.
    pub at_ms: EpochMs,
    /// The input of the evaluation.
    pub input: Input,
    /// The outcome of the evaluation.
    pub outcome: Outcome,
    /// Whether the record matches its stored hash; for a decision in an event, whether all events up to it do.
    pub is_intact: bool,
}

/// The list that a decision is in, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionPosition {
    /// In an event of an operation.
    Event {
        /// The event's index in the log of all events, from 0.
        ledger_index: u64,
        /// The event's number within its operation, from 1.
        seq: u64,
    },
    /// Among the refusals and faults, from 1.
    Refusal(u64),
    /// Among the previews, from 1.
    Preview(u64),
}

/// A position in the three lists. The default is the beginning. New records are only added after every earlier
/// cursor; the oldest previews are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The number of events read.
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
    pub const fn after(self, position: DecisionPosition) -> Self {
        match position {
            DecisionPosition::Event { ledger_index, .. } => {
                Self { n_events: ledger_index.saturating_add(1), ..self }
            }
            DecisionPosition::Refusal(refusal) => Self { refusal, ..self },
            DecisionPosition::Preview(preview) => Self { preview, ..self },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_parses_from_its_printed_form() {
        let cursor = Cursor { n_events: 7, refusal: 0, preview: u64::MAX };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in ["", "7", "1.2", "1.2.3.4", "1.2.x", "1.2.-3", " 1.2.3"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(InvalidCursor), "{wrong}");
        }
    }
}
