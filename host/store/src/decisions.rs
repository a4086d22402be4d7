//! Recorded policy decisions, as tools read them, and a cursor over them.
//!
//! A decision is in one of three lists: in the event of the operation that it changed, in the refusals and faults
//! that changed no operation, or in the previews. Each list only grows at its end, so a [`Cursor`] holds the position
//! in all three.

mod search;
mod view;

pub use view::{Decisions, PastEvent};

use gateway_engine::ports::{DecisionPosition, EventId, RecordedDecision};
use std::fmt;
use std::str::FromStr;

/// A position in the three lists. The default is the beginning. New records are only added after every earlier
/// cursor; the oldest refusals and previews are removed. Each record is named by its index and hash: a store that was restored from an older
/// copy has another one there, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The last event read.
    pub event: Option<EventId>,
    /// The last refusal read.
    pub refusal: Option<EventId>,
    /// The last preview read.
    pub preview: Option<EventId>,
}

/// The text is not the three parts of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be three parts separated by dots, as an export prints them")]
pub struct InvalidCursor;

impl Cursor {
    /// The cursor after one more decision.
    #[must_use]
    pub fn after(self, decision: &RecordedDecision) -> Self {
        let named = |index| Some(EventId::new(index, decision.hash));
        match decision.position {
            DecisionPosition::Event { ledger_index, .. } => Self { event: named(ledger_index), ..self },
            DecisionPosition::Refusal(index) => Self { refusal: named(index), ..self },
            DecisionPosition::Preview(index) => Self { preview: named(index), ..self },
        }
    }
}

/// The part of a list of which nothing was read.
const NOTHING: &str = "0";

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [event, refusal, preview] = [self.event, self.refusal, self.preview]
            .map(|part| part.map_or_else(|| NOTHING.to_owned(), |id| id.to_string()));
        write!(f, "{event}.{refusal}.{preview}")
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let part = |text: &str| match text {
            NOTHING => Ok(None),
            id => id.parse().map(Some).map_err(|_| InvalidCursor),
        };
        let parts: Vec<_> = text.split('.').map(part).collect::<Result<_, _>>()?;
        let [event, refusal, preview] = parts[..] else { return Err(InvalidCursor) };
        Ok(Self { event, refusal, preview })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;

    #[test]
    fn cursor_parses_from_its_printed_form() {
        let named = |index| Some(EventId::new(index, Hex32::new([0xab; 32])));
        let cursor = Cursor { event: named(7), refusal: None, preview: named(i64::MAX.unsigned_abs()) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!("0.0.0".parse(), Ok(Cursor::default()));
        for wrong in ["", "0", "0.0", "0.0.0.0", "0.0.x", "0.0.7", " 0.0.0", "0.0.7-ab"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(InvalidCursor), "{wrong}");
        }
    }
}
