//! Names of recorded decisions.

use crate::ids::OperationId;
use std::fmt;
use std::str::FromStr;

/// A recorded decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionId {
    /// In an event of an operation: `<operation id>-<seq>`.
    Event {
        /// The operation.
        operation_id: OperationId,
        /// The event's number within the operation, from 1.
        seq: u64,
    },
    /// Among the refusals and faults, from 1: `refusal-<index>`.
    Refusal(u64),
    /// Among the previews, from 1: `preview-<index>`.
    Preview(u64),
}

/// The text names no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `refusal-N`, `preview-N`, or an operation's id with `-` and the number of its event")]
pub struct InvalidDecisionId;

const REFUSAL: &str = "refusal";
const PREVIEW: &str = "preview";

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { operation_id, seq } => write!(f, "{operation_id}-{seq}"),
            Self::Refusal(index) => write!(f, "{REFUSAL}-{index}"),
            Self::Preview(index) => write!(f, "{PREVIEW}-{index}"),
        }
    }
}

impl FromStr for DecisionId {
    type Err = InvalidDecisionId;

    fn from_str(text: &str) -> Result<Self, InvalidDecisionId> {
        let (place, number) = text.split_once('-').ok_or(InvalidDecisionId)?;
        let number: u64 = number.parse().map_err(|_| InvalidDecisionId)?;
        let id = match place {
            REFUSAL => Self::Refusal(number),
            PREVIEW => Self::Preview(number),
            operation => {
                let operation_id = operation.parse().map_err(|_| InvalidDecisionId)?;
                Self::Event { operation_id, seq: number }
            }
        };
        // One spelling for each.
        if id.to_string() == text { Ok(id) } else { Err(InvalidDecisionId) }
    }
}

impl serde::Serialize for DecisionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Hex32;

    #[test]
    fn id_parses_from_its_printed_form_and_from_no_other() {
        let operation_id = OperationId(Hex32::new([0xab; 32]));
        for id in [
            DecisionId::Event { operation_id, seq: 3 },
            DecisionId::Refusal(1),
            DecisionId::Preview(u64::MAX),
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for wrong in
            ["", "1", "refusal", "refusal-", "refusal-+1", "refusal-01", "Refusal-1", "ab-1", "preview-1-1"]
        {
            assert_eq!(wrong.parse::<DecisionId>(), Err(InvalidDecisionId), "{wrong}");
        }
    }
}
