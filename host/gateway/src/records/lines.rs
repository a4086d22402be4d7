//! A decision record as a JSON line, and in words.

use gateway_store::{Cursor, Place, Recorded};
use serde_json::{Value, json};

/// The form of a line. Another form is another name.
const FORMAT: &str = "svc/decision-record/v1";

/// Everything on record. `cursor` is where an export goes on after this line.
pub(super) fn line(decision: &Recorded, cursor: Cursor) -> Value {
    let (place, index, seq) = match decision.place {
        Place::Event { ledger_index, seq } => ("operation", ledger_index, Some(seq)),
        Place::Refusal(index) => ("refusal", index, None),
        Place::Preview(index) => ("preview", index, None),
    };
    json!({
        "format": FORMAT,
        "cursor": cursor.to_string(),
        "place": place,
        "index": index,
        "operation_id": decision.operation_id,
        "seq": seq,
        "at_ms": decision.at_ms,
        "input": decision.input,
        "outcome": decision.outcome,
        "intact": decision.is_intact,
    })
}

/// `operation <id> event 3, approval` and the like.
pub(super) fn title(decision: &Recorded) -> String {
    let moment = decision.input.moment.as_str();
    let operation = || decision.operation_id.map(|id| format!(" of operation {id}")).unwrap_or_default();
    match decision.place {
        Place::Event { seq, .. } => format!("event {seq}{}, {moment}", operation()),
        Place::Refusal(index) => format!("decision {index}{}, {moment}", operation()),
        Place::Preview(index) => format!("preview {index}"),
    }
}
