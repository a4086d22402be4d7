//! `decisions export`, and titles of decisions in reports.

use super::{Export, RecordsError};
use gateway_service::output;
use gateway_store::{Cursor, DecisionPosition, Decisions, RecordedDecision};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Decisions read at once: a short read that does not hold up a running gateway.
pub(super) const PAGE: usize = 256;

/// The name of the lines' format.
const FORMAT: &str = "svc/decision-record/v2";

pub(super) async fn run(
    decisions: &Decisions,
    Export { after, limit }: &Export,
) -> Result<ExitCode, RecordsError> {
    let mut cursor = after.unwrap_or_default();
    if let Some(id) = decisions.unknown(cursor).await? {
        return Err(RecordsError::NotOfThisStore(id.to_string()));
    }
    let mut n_left = limit.unwrap_or(usize::MAX);
    loop {
        let page = decisions.page(cursor, PAGE.min(n_left)).await?;
        if page.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        n_left = n_left.saturating_sub(page.len());
        for decision in &page {
            cursor = cursor.after(decision);
            output::print_json(&line(decision, cursor))?;
        }
    }
}

/// The line of one decision. An export `--after` this `cursor` continues with the next line.
fn line(decision: &RecordedDecision, cursor: Cursor) -> Value {
    let (position, index, seq) = match decision.position {
        DecisionPosition::Event { ledger_index, seq } => ("operation", ledger_index, Some(seq)),
        DecisionPosition::Refusal(index) => ("refusal", index, None),
        DecisionPosition::Preview(index) => ("preview", index, None),
    };
    json!({
        "format": FORMAT,
        "cursor": cursor.to_string(),
        "place": position,
        "index": index,
        "decision_id": decision.id(),
        "operation_id": decision.operation_id,
        "seq": seq,
        "request_id": decision.asked.request_id,
        "idempotency_key": decision.asked.idempotency_key,
        "at_ms": decision.at_ms,
        "input": decision.input,
        "outcome": decision.outcome,
        "intact": decision.is_intact,
    })
}

/// A decision's title in reports, for example `event 3 of operation <id>, approval`.
pub(super) fn title(decision: &RecordedDecision) -> String {
    let moment = decision.input.moment.as_str();
    let operation = || decision.operation_id.map(|id| format!(" of operation {id}")).unwrap_or_default();
    match decision.position {
        DecisionPosition::Event { seq, .. } => format!("event {seq}{}, {moment}", operation()),
        DecisionPosition::Refusal(index) => format!("decision {index}{}, {moment}", operation()),
        DecisionPosition::Preview(index) => format!("preview {index}"),
    }
}
