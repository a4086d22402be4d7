//! Results for people, and for programs. Texts of the gateway cannot move the cursor of a terminal.

use super::{CallError, Form};
use crate::escape;
use gateway_api::wire::events::rfc3339;
use gateway_client::{Event, Key, Operation};
use gateway_domain::time::EpochMs;
use serde_json::{Map, Value};
use std::io::{self, IsTerminal as _, Write};

/// Rows in columns, of which the last one is free.
fn columns(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    for row in &rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width));
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    text.to_owned() + &" ".repeat(missing)
}

fn text(members: &Map<String, Value>, name: &str) -> String {
    match members.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// What an operation does, in one line.
fn summary(operation: &Operation) -> String {
    let intent = &operation.intent;
    let of = |name| text(intent, name);
    match of("kind").as_str() {
        "payment" => {
            let reference = Some(of("reference")).filter(|reference| !reference.is_empty());
            let reference = reference.map(|reference| format!(" ({reference})")).unwrap_or_default();
            format!(
                "pay {} minor units of {} from {} to {}{reference}",
                of("amount_minor"),
                of("currency"),
                of("from_account"),
                of("to_account"),
            )
        }
        "asset_action" => {
            format!(
                "sign the {} of {} on {} with {}",
                of("action"),
                of("asset_id"),
                of("chain_id"),
                of("key_ref")
            )
        }
        "key_create" => format!("create the key {}", of("key_ref")),
        kind => format!("{kind} of the key {}", of("key_ref")),
    }
}

/// A moment; one that has no form for people, as milliseconds since 1970.
fn time(ms: u64) -> String {
    rfc3339(EpochMs(ms)).unwrap_or_else(|| format!("{ms} ms"))
}

/// Tells on a terminal, while an operation is waited for, what it has come to since this was last called.
pub(super) fn progress(shown: &mut Option<String>, operation: &Operation) {
    let Operation { state, approvals, .. } = operation;
    let now = escape(&format!("{state}, approvals {} of {}", approvals.approved, approvals.required));
    let mut errors = io::stderr().lock();
    if errors.is_terminal() && shown.as_ref() != Some(&now) {
        // What is told on the way is not worth a failure.
        let _ = writeln!(errors, "{}  {now}", time(operation.updated_at_ms));
    }
    *shown = Some(now);
}

/// One operation.
pub(super) fn operation(operation: &Operation, form: Form) -> Result<(), CallError> {
    let mut out = io::stdout().lock();
    match form {
        Form::ForPeople => {}
        Form::Json => return document(&mut out, operation),
        Form::Brief => return words(&mut out, [&operation.operation_id]),
    }
    let approvals = &operation.approvals;
    let mut rows = vec![
        ("operation", operation.operation_id.clone()),
        ("does", summary(operation)),
        ("state", operation.state.clone()),
        (
            "approvals",
            format!("{} of {} {}", approvals.approved, approvals.required, approvals.subjects.join(", ")),
        ),
        ("next", operation.next_actions.join(", ")),
        ("submitted", time(operation.created_at_ms)),
        ("changed", time(operation.updated_at_ms)),
    ];
    if let Some(failure) = &operation.failure {
        rows.push(("failure", format!("{}: {}", failure.code, failure.message)));
    }
    if let Some(step) = &operation.in_progress {
        rows.push(("at work", step.clone()));
    }
    let result = operation.rest.get("result").and_then(Value::as_object);
    if let Some(signature) = result.map(|result| text(result, "signature_hex")).filter(|hex| !hex.is_empty())
    {
        rows.push(("signature", signature));
    }
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows: Vec<_> = rows.map(|(name, value)| vec![name.to_owned(), value.trim_end().to_owned()]).collect();
    Ok(columns(&mut out, &rows)?)
}

/// A list of operations, in its order.
pub(super) fn operations(all: &[Operation], form: Form) -> Result<(), CallError> {
    let mut out = io::stdout().lock();
    match form {
        Form::ForPeople => {}
        Form::Json => return lines(&mut out, all),
        Form::Brief => return words(&mut out, all.iter().map(|operation| &operation.operation_id)),
    }
    let row = |operation: &Operation| {
        let approvals = format!("{}/{}", operation.approvals.approved, operation.approvals.required);
        vec![operation.operation_id.clone(), operation.state.clone(), approvals, summary(operation)]
    };
    let head = ["OPERATION", "STATE", "APPROVALS", "DOES"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(all.iter().map(row)).collect();
    Ok(columns(&mut out, &rows)?)
}

/// One thing of which there is no other.
fn document(out: &mut impl Write, one: &impl serde::Serialize) -> Result<(), CallError> {
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(one).map_err(io::Error::from)?)?)
}

fn words<'a>(out: &mut impl Write, all: impl IntoIterator<Item = &'a String>) -> Result<(), CallError> {
    for word in all {
        writeln!(out, "{}", escape(word))?;
    }
    Ok(())
}

fn lines<T: serde::Serialize>(out: &mut impl Write, all: &[T]) -> Result<(), CallError> {
    for one in all {
        writeln!(out, "{}", serde_json::to_string(one).map_err(io::Error::from)?)?;
    }
    Ok(())
}

/// An event, at once.
pub(super) fn event(event: &Event, form: Form) -> Result<(), CallError> {
    let mut out = io::stdout().lock();
    match form {
        Form::ForPeople => {}
        Form::Json => return lines(&mut out, std::slice::from_ref(event)),
        Form::Brief => return words(&mut out, [&event.operation_id]),
    }
    let Event { index, operation_id, seq, kind, state, key_ref, at_ms, .. } = event;
    let at = time(*at_ms);
    let line = format!("{index}  {at}  {operation_id}  {seq}  {kind} -> {state}  {key_ref}");
    Ok(writeln!(out, "{}", escape(&line))?)
}

/// One key.
pub(super) fn key(key: &Key, form: Form) -> Result<(), CallError> {
    let mut out = io::stdout().lock();
    match form {
        Form::ForPeople => {}
        Form::Json => return document(&mut out, key),
        Form::Brief => return words(&mut out, [&key.key_ref]),
    }
    let participants: Vec<_> = key.participants.iter().map(ToString::to_string).collect();
    let rows = [
        ("key", key.key_ref.clone()),
        ("state", key.state.clone()),
        ("asset", text(&key.rest, "asset_id")),
        ("profile", text(&key.rest, "signature_profile")),
        ("public key", key.public_key_hex.clone().unwrap_or_default()),
        ("epoch", key.active_epoch.clone().unwrap_or_default()),
        ("signers", format!("{} of the participants {}", key.threshold, participants.join(", "))),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows: Vec<_> = rows.map(|(name, value)| vec![name.to_owned(), value]).collect();
    Ok(columns(&mut out, &rows)?)
}

/// A list of keys, in its order.
pub(super) fn keys(all: &[Key], form: Form) -> Result<(), CallError> {
    let mut out = io::stdout().lock();
    match form {
        Form::ForPeople => {}
        Form::Json => return lines(&mut out, all),
        Form::Brief => return words(&mut out, all.iter().map(|key| &key.key_ref)),
    }
    let row = |key: &Key| {
        let signers = format!("{} of {}", key.threshold, key.participants.len());
        vec![key.key_ref.clone(), key.state.clone(), signers, text(&key.rest, "asset_id")]
    };
    let head = ["KEY", "STATE", "SIGNERS", "ASSET"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(all.iter().map(row)).collect();
    Ok(columns(&mut out, &rows)?)
}

/// What the policy would say.
pub(super) fn preview(outcome: &Map<String, Value>, form: Form) -> Result<(), CallError> {
    let mut out = io::stdout().lock();
    let decision = text(outcome, "decision");
    match form {
        Form::ForPeople => {}
        Form::Json => return document(&mut out, outcome),
        Form::Brief => return words(&mut out, [&decision]),
    }
    let mut rows = vec![vec!["decision".to_owned(), decision]];
    for name in ["bundle_id", "bundle_hash"] {
        rows.push(vec![name.to_owned(), text(outcome, name)]);
    }
    for name in ["reasons", "obligations", "facts"] {
        for entry in outcome.get(name).and_then(Value::as_array).into_iter().flatten() {
            rows.push(vec![name.to_owned(), entry.as_str().map_or_else(|| entry.to_string(), str::to_owned)]);
        }
    }
    Ok(columns(&mut out, &rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn operation(reference: &str) -> Operation {
        let view = json!({
            "operation_id": "0".repeat(64), "state": "pending_approval", "next_actions": ["approve"], "links": {}, "failure": null,
            "in_progress": null, "created_at_ms": 1, "updated_at_ms": 2,
            "approvals": {"approved": 1, "required": 2, "subjects": ["alice"]},
            "intent": {"kind": "payment", "amount_minor": 12500, "currency": "EUR", "from_account": "a", "to_account": "b", "reference": reference},
        });
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn texts_of_others_do_not_move_the_cursor_and_columns_stay_straight() {
        let rows = [operation("x"), operation("\u{1b}[2J\u{202e}21")]
            .map(|one| vec![summary(&one), one.state.clone()]);
        let mut out = Vec::new();
        columns(&mut out, &rows).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert!(
            lines[1].starts_with("pay 12500 minor units of EUR from a to b (\\u{1b}[2J\\u{202e}21)  pending"),
            "{out}"
        );
        assert_eq!(lines[0].find("pending"), lines[1].find("pending"), "{out}");
    }
}
