//! Replays the events and checks that the document's members follow from them.

use super::EvidenceReader;
use super::events::History;
use super::pages::Document;
use crate::document::Kind;
use crate::report::{Findings, Report};
use crate::summary::{IDENTITY, for_each_event, summary};
use gateway_domain::intent::{Intent, key_id};
use gateway_domain::operation::{
    Change, Event, KeySlot, Operation, State, contradicts_content, contradicts_ends, may_follow, replay,
};
use serde_json::{Map, Value, json};

const NAME: &str = "operation";

/// An operation with its complete history.
pub(crate) struct Replayed {
    pub(crate) operation: Operation,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn check(
    document: &Document,
    history: History,
    reader: &EvidenceReader<'_>,
    report: &mut Report,
) -> Option<Replayed> {
    let mut findings = check_requested(document, reader);
    if !history.is_whole {
        if !findings.is_empty() {
            report.add(NAME, findings, "");
        }
        let why =
            "operation, family, tenant, intent, state and all other members follow from the complete history";
        report.not_checked(NAME, why);
        return None;
    }
    if document.kind == Kind::Audit {
        check_audit_log(document, findings, report);
        return None;
    }
    let Some(operation) = replay(&history.events) else {
        report.add(NAME, Findings::of("/events", "do not begin with a submission"), "");
        return None;
    };
    let replayed = Replayed { operation, events: history.events };
    compare_members(&document.members, &summary(&replayed.operation, &replayed.events), &mut findings);
    check_ids(&replayed.operation, &mut findings);
    check_order(&replayed.events, &mut findings);
    report.add(NAME, findings, summary_line(&replayed));
    Some(replayed)
}

fn summary_line(replayed: &Replayed) -> String {
    let Operation { id, tenant, intent, .. } = &replayed.operation;
    format!(
        "`{id}`, a `{}` of tenant `{tenant}`, is `{}` after {} events",
        intent.operation_type().as_str(),
        replayed.operation.state().as_str(),
        replayed.events.len()
    )
}

/// Checks that the document is about the operation that the reader requested.
fn check_requested(document: &Document, reader: &EvidenceReader<'_>) -> Findings {
    let mut findings = Findings::default();
    let actual = document.members.get("operation_id").and_then(Value::as_str).unwrap_or_default();
    if let Some(requested) = reader.operation_id {
        let requested = requested.to_string();
        findings.same("/operation_id", "the requested operation", &actual.to_owned(), &requested);
    }
    findings
}

/// Checks the hash of the intent and the id of the key.
fn check_ids(operation: &Operation, findings: &mut Findings) {
    match operation.intent.hash() {
        Ok(hash) => findings.same("/intent_hash", "the intent's hash", &operation.intent_hash, &hash),
        Err(error) => findings.add("/intent", error.to_string()),
    }
    check_key_id(operation, &operation.key, "/key_id", findings);
    let successor = match &operation.intent {
        Intent::Rotate(rotate) => Some(&rotate.new_key_ref),
        Intent::Payment(_)
        | Intent::AssetAction(_)
        | Intent::KeyCreate(_)
        | Intent::Refresh(_)
        | Intent::Reshare(_)
        | Intent::Recover(_) => None,
    };
    let at = "/events/0/event/change/successor";
    if successor != operation.successor.as_ref().map(|slot| &slot.key_ref) {
        findings.add(at, "is not the new key that the intent names");
    }
    if let Some(slot) = &operation.successor {
        check_key_id(operation, slot, at, findings);
    }
}

fn check_key_id(operation: &Operation, slot: &KeySlot, at: &str, findings: &mut Findings) {
    match key_id(&operation.tenant, &slot.key_ref) {
        Ok(id) => findings.same(at, "the id of the key of this name", &slot.key_id, &id),
        Err(error) => findings.add(at, error.to_string()),
    }
}

/// Checks that the events are in an order that the gateway can write: no decision, admission or signature twice or
/// too early. Also checks that an approval or rejection has the time of its event, or an earlier time if the clock was set back.
fn check_order(events: &[Event], findings: &mut Findings) {
    for_each_event(events, |index, before, event| {
        let at = format!("/events/{index}/event/change");
        if !may_follow(before, &event.change) {
            let state = before.state().as_str();
            let what = format!("cannot happen to an operation in state `{state}`");
            findings.add(format!("{at}/type"), what);
        }
        let previous = index.checked_sub(1).and_then(|index| events.get(index)).map(|event| &event.change);
        let contradiction =
            contradicts_ends(before, previous, event).or_else(|| contradicts_content(before, event));
        if let Some(why) = contradiction {
            findings.add(format!("{at}/type"), why.to_owned());
        }
        let received = match &event.change {
            Change::ApprovalRecorded { approval, .. } | Change::LateApprovalRecorded { approval } => {
                Some((approval.approved_at_ms, "approval/approved_at_ms"))
            }
            Change::RejectionRecorded { rejection, .. } => {
                Some((rejection.rejected_at_ms, "rejection/rejected_at_ms"))
            }
            _ => None,
        };
        if let Some((received_at, member)) = received {
            let clock_went_back = received_at < event.at_ms && event.at_ms == before.updated_at_ms;
            if received_at != event.at_ms && !clock_went_back {
                let what = format!("differs from the time of its event, {}", event.at_ms.0);
                findings.add(format!("{at}/{member}"), what);
            }
        }
    });
}

/// Checks that members equal the values that follow from the events.
fn compare_members(members: &Map<String, Value>, expected: &Map<String, Value>, findings: &mut Findings) {
    for (name, expected) in expected {
        // The check `form` reports missing members.
        if let Some(actual) = members.get(name).filter(|actual| *actual != expected) {
            let at = first_difference(actual, expected, format!("/{name}"));
            findings.add(at, "differs from the value that follows from the events");
        }
    }
}

/// The JSON pointer to the first value that differs.
fn first_difference(actual: &Value, expected: &Value, at: String) -> String {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) if actual.keys().eq(expected.keys()) => {
            let differing = actual.iter().zip(expected.values()).find(|((_, one), other)| one != other);
            match differing {
                Some(((name, one), other)) => first_difference(one, other, format!("{at}/{name}")),
                None => at,
            }
        }
        (Value::Array(actual), Value::Array(expected)) if actual.len() == expected.len() => {
            let differing = actual.iter().zip(expected).enumerate().find(|(_, (one, other))| one != other);
            match differing {
                Some((index, (one, other))) => first_difference(one, other, format!("{at}/{index}")),
                None => at,
            }
        }
        _ => at,
    }
}

/// Checks an audit log, which discloses too little to replay its events. Its members are compared with the visible parts
/// of the events; the rest is not checked.
fn check_audit_log(document: &Document, mut findings: Findings, report: &mut Report) {
    let submitted = |pointer: &str| {
        let first = document.entries.first();
        first.and_then(|entry| entry.event.pointer(pointer)).cloned().unwrap_or_default()
    };
    if submitted("/change/type") != json!("submitted") {
        report.add(NAME, Findings::of("/events", "do not begin with a submission"), "");
        return;
    }
    let kind = submitted("/change/intent/kind");
    let types = document.entries.iter().rev().filter_map(|entry| entry.event.pointer("/change/type"));
    let state = types.filter_map(Value::as_str).find_map(State::after);
    let [id, family, state_name, total] = IDENTITY;
    let expected = Map::from_iter([
        (id.to_owned(), submitted("/change/operation_id")),
        (family.to_owned(), json!(if kind == json!("payment") { "product" } else { "custody" })),
        (state_name.to_owned(), json!(state)),
        (total.to_owned(), json!(document.entries.len())),
    ]);
    compare_members(&document.members, &expected, &mut findings);
    let shown = |name: &str| expected.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let seen = format!("`{}` is `{}` after {} events", shown(id), shown(state_name), document.entries.len());
    report.add(NAME, findings, seen);
    let why = "the intent, the policy's decisions, approvals, the admission, receipts and the signature: an audit log discloses \
               too little to check them, but evidence has all of it";
    report.not_checked("what others signed", why);
}
