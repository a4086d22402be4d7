//! Results for people, and for programs.

use super::output::{CallError, Form};
use gateway_client::{Event, Key, MissingApprovals, Operation};
use gateway_domain::time::EpochMs;
use gateway_service::output::{self, Lines};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io;

/// Rows in columns, of which the last one is free.
fn columns(rows: &[Vec<String>]) -> Lines {
    let rows: Vec<Vec<_>> =
        rows.iter().map(|row| row.iter().map(|cell| output::escape(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut lines = Lines::new();
    for row in &rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        lines.add(padded.collect::<Vec<_>>().join("  ").trim_end());
    }
    lines
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

/// The people who must approve yet.
fn missing(all: &[MissingApprovals]) -> String {
    let text = |MissingApprovals { group, people }: &MissingApprovals| match group {
        Some(group) => format!("{people} of {group}"),
        None => format!("{people} more"),
    };
    all.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A moment; one that has no form for people, as milliseconds since 1970.
fn time(ms: u64) -> String {
    EpochMs(ms).rfc3339().unwrap_or_else(|| format!("{ms} ms"))
}

/// Tells on a terminal, while an operation is waited for, what it has come to since this was last called.
pub(super) fn progress(shown: &mut Option<String>, operation: &Operation) {
    let Operation { state, approvals, .. } = operation;
    let waits = approvals.admit_not_before_ms.map(|until| format!(", waits until {}", time(until)));
    let waits = waits.unwrap_or_default();
    let now = format!("{state}, approvals {} of {}{waits}", approvals.approved, approvals.required);
    if output::tells_terminal() && shown.as_ref() != Some(&now) {
        output::tell_line(format_args!("{}  {now}", time(operation.updated_at_ms)));
    }
    *shown = Some(now);
}

/// Prints one thing: its rows of a name and a value, without empty ones, for people; else JSON, or its brief form.
fn one(form: Form, thing: &impl Serialize, brief: &str, rows: Vec<(&str, String)>) -> Result<(), CallError> {
    let mut lines = Lines::new();
    match form {
        Form::ForPeople => {
            let filled = rows.into_iter().filter(|(_, value)| !value.is_empty());
            lines = columns(&filled.map(|(name, value)| vec![name.to_owned(), value]).collect::<Vec<_>>());
        }
        Form::Json => lines.add_json_pretty(thing).map_err(io::Error::from)?,
        Form::Brief => lines.add(brief),
    }
    Ok(output::print(&lines)?)
}

/// Prints things in their order: a table for people, else a line for each.
fn list<T: Serialize>(
    form: Form,
    all: &[T],
    brief: fn(&T) -> &str,
    head: [&str; 4],
    row: fn(&T) -> [String; 4],
) -> Result<(), CallError> {
    if form == Form::ForPeople {
        let rows = std::iter::once(head.map(str::to_owned)).chain(all.iter().map(row));
        return Ok(output::print(&columns(&rows.map(Vec::from).collect::<Vec<_>>()))?);
    }
    all.iter().try_for_each(|one| line(form, one, brief(one), ""))
}

/// Prints one thing of several on a line, which for people is this text.
fn line(form: Form, thing: &impl Serialize, brief: &str, for_people: &str) -> Result<(), CallError> {
    Ok(match form {
        Form::ForPeople => output::print_line(for_people),
        Form::Json => output::print_json(thing),
        Form::Brief => output::print_line(brief),
    }?)
}

/// One operation.
pub(super) fn operation(operation: &Operation, form: Form) -> Result<(), CallError> {
    let approvals = &operation.approvals;
    let failure = operation.failure.as_ref();
    let result = operation.rest.get("result").and_then(Value::as_object);
    let rows = vec![
        ("operation", operation.operation_id.clone()),
        ("does", summary(operation)),
        ("key", text(&operation.intent, "public_key_artifact_ref")),
        ("state", operation.state.clone()),
        (
            "approvals",
            format!("{} of {} {}", approvals.approved, approvals.required, approvals.subjects.join(", ")),
        ),
        ("missing", missing(&approvals.missing)),
        ("waits until", approvals.admit_not_before_ms.map(time).unwrap_or_default()),
        ("next", operation.next_actions.join(", ")),
        ("submitted", time(operation.created_at_ms)),
        ("changed", time(operation.updated_at_ms)),
        ("failure", failure.map(|of| format!("{}: {}", of.code, of.message)).unwrap_or_default()),
        ("at work", operation.in_progress.clone().unwrap_or_default()),
        ("signature", result.map(|result| text(result, "signature_hex")).unwrap_or_default()),
    ];
    one(form, operation, &operation.operation_id, rows)
}

/// A list of operations, in its order.
pub(super) fn operations(all: &[Operation], form: Form) -> Result<(), CallError> {
    let head = ["OPERATION", "STATE", "APPROVALS", "DOES"];
    list(
        form,
        all,
        |operation| &operation.operation_id,
        head,
        |operation| {
            let approvals = format!("{}/{}", operation.approvals.approved, operation.approvals.required);
            [operation.operation_id.clone(), operation.state.clone(), approvals, summary(operation)]
        },
    )
}

/// An event, at once.
pub(super) fn event(event: &Event, form: Form) -> Result<(), CallError> {
    let Event { id, operation_id, seq, kind, state, key_ref, at_ms, .. } = event;
    let at = time(*at_ms);
    let for_people = format!("{id}  {at}  {operation_id}  {seq}  {kind} -> {state}  {key_ref}");
    line(form, event, operation_id, &for_people)
}

/// One key.
pub(super) fn key(key: &Key, form: Form) -> Result<(), CallError> {
    let participants: Vec<_> = key.participants.iter().map(ToString::to_string).collect();
    let rows = vec![
        ("key", key.key_ref.clone()),
        ("state", key.state.clone()),
        ("asset", text(&key.rest, "asset_id")),
        ("profile", text(&key.rest, "signature_profile")),
        ("public key", key.public_key_hex.clone().unwrap_or_default()),
        ("payments", text(&key.rest, "payments_public_key_hex")),
        ("epoch", key.active_epoch.clone().unwrap_or_default()),
        ("signers", format!("{} of the participants {}", key.threshold, participants.join(", "))),
    ];
    one(form, key, &key.key_ref, rows)
}

/// A list of keys, in its order.
pub(super) fn keys(all: &[Key], form: Form) -> Result<(), CallError> {
    list(
        form,
        all,
        |key| &key.key_ref,
        ["KEY", "STATE", "SIGNERS", "ASSET"],
        |key| {
            let signers = format!("{} of {}", key.threshold, key.participants.len());
            [key.key_ref.clone(), key.state.clone(), signers, text(&key.rest, "asset_id")]
        },
    )
}

/// What the policy would say.
pub(super) fn preview(outcome: &Map<String, Value>, form: Form) -> Result<(), CallError> {
    let texts = ["decision", "bundle_id", "bundle_hash"].map(|name| (name, text(outcome, name)));
    let entries = ["reasons", "obligations", "facts"].into_iter().flat_map(|name| {
        let entries = outcome.get(name).and_then(Value::as_array).into_iter().flatten();
        entries.map(move |entry| (name, entry.as_str().map_or_else(|| entry.to_string(), str::to_owned)))
    });
    one(form, outcome, &text(outcome, "decision"), texts.into_iter().chain(entries).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn operation(reference: &str) -> Operation {
        let view = json!({
            "operation_id": "0".repeat(64), "state": "pending_approval", "next_actions": ["approve"], "links": {}, "failure": null,
            "in_progress": null, "created_at_ms": 1, "updated_at_ms": 2,
            "approvals": {
                "approved": 1, "required": 2, "subjects": ["alice"],
                "missing": [{"group": null, "people": 1}, {"group": "treasurer", "people": 1}]
            },
            "intent": {"kind": "payment", "amount_minor": 12500, "currency": "EUR", "from_account": "a", "to_account": "b", "reference": reference},
        });
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn texts_of_others_do_not_move_the_cursor_and_columns_stay_straight() {
        let rows = [operation("x"), operation("\u{1b}[2J\u{202e}21\n")]
            .map(|one| vec![summary(&one), one.state.clone()]);
        let out = columns(&rows);
        let lines: Vec<_> = out.as_str().lines().collect();
        assert!(
            lines[1].starts_with(
                "pay 12500 minor units of EUR from a to b (\\u{1b}[2J\\u{202e}21\\u{a})  pending"
            ),
            "{out:?}"
        );
        assert_eq!(lines[0].find("pending"), lines[1].find("pending"), "{out:?}");
    }
}
