//! What the events make of the operation, and whether the document says the same.

use super::Reader;
use super::events::History;
use super::pages::Read;
use super::report::{Findings, Report};
use crate::course::course;
use crate::document::Kind;
use crate::summary::{IDENTITY, summary};
use gateway_domain::intent::key_id;
use gateway_domain::operation::{Change, Event, Operation, State, may_follow, replay};
use serde_json::{Map, Value, json};

const NAME: &str = "operation";

/// An operation and its whole history.
pub(crate) struct Story {
    pub(crate) operation: Operation,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn check(
    read: &Read,
    history: History,
    reader: &Reader<'_>,
    report: &mut Report,
) -> Option<Story> {
    let mut findings = asked_for(read, reader);
    if !history.is_whole {
        if !findings.is_empty() {
            report.add(NAME, findings, "");
        }
        let why = "operation, family, tenant, intent, state and all other members follow from the whole history, which is not here";
        report.not_checked(NAME, why);
        return None;
    }
    if read.kind == Kind::Audit {
        audit(read, findings, report);
        return None;
    }
    let Some(operation) = replay(&history.events) else {
        report.add(NAME, Findings::of("/events", "do not begin with a submission"), "");
        return None;
    };
    let story = Story { operation, events: history.events };
    compared(&read.members, &summary(&story.operation, &story.events), &mut findings);
    names(&story.operation, &mut findings);
    out_of_order(&story.events, &mut findings);
    report.add(NAME, findings, seen(&story));
    Some(story)
}

fn seen(story: &Story) -> String {
    let Operation { id, tenant, intent, .. } = &story.operation;
    format!(
        "`{id}`, a `{}` of tenant `{tenant}`, is `{}` after {} events",
        intent.operation_type().as_str(),
        story.operation.state().as_str(),
        story.events.len()
    )
}

/// The document is of the operation that the reader asked for.
fn asked_for(read: &Read, reader: &Reader<'_>) -> Findings {
    let mut findings = Findings::default();
    let stands = read.members.get("operation_id").and_then(Value::as_str).unwrap_or_default();
    if let Some(asked) = reader.operation_id {
        findings.same("/operation_id", "the operation asked for", &stands.to_owned(), &asked.to_string());
    }
    findings
}

/// Checks the hash of the intent and the id of the key.
fn names(operation: &Operation, findings: &mut Findings) {
    match operation.intent.hash() {
        Ok(hash) => findings.same("/intent_hash", "the hash of the intent", &operation.intent_hash, &hash),
        Err(error) => findings.add("/intent", error.to_string()),
    }
    match key_id(&operation.tenant, &operation.key.key_ref) {
        Ok(id) => findings.same("/key_id", "the key of this name", &operation.key.key_id, &id),
        Err(error) => findings.add("/key_ref", error.to_string()),
    }
}

/// A history is one that a gateway could have written: nothing is decided, admitted or signed twice, or before its time. An
/// approval has the time of its event, or an earlier one where the clock had been put back.
fn out_of_order(events: &[Event], findings: &mut Findings) {
    course(events, |index, before, event| {
        let at = format!("/events/{index}/event/change");
        if !may_follow(before, &event.change) {
            let state = before.state().as_str();
            let what = format!("can not happen to an operation that is `{state}`");
            findings.add(format!("{at}/type"), what);
        }
        if let Change::ApprovalRecorded { approval, .. } | Change::LateApprovalRecorded { approval } =
            &event.change
        {
            let taken_at = approval.approved_at_ms;
            let clock_went_back = taken_at < event.at_ms && event.at_ms == before.updated_at_ms;
            if taken_at != event.at_ms && !clock_went_back {
                let what = format!("is not the time of its event, {}", event.at_ms.0);
                findings.add(format!("{at}/approval/approved_at_ms"), what);
            }
        }
    });
}

/// What stands in the document is what follows from its events.
fn compared(members: &Map<String, Value>, expected: &Map<String, Value>, findings: &mut Findings) {
    for (name, expected) in expected {
        // Missing members fail the form.
        if let Some(stands) = members.get(name).filter(|stands| *stands != expected) {
            let at = first_difference(stands, expected, format!("/{name}"));
            findings.add(at, "is not what follows from the events");
        }
    }
}

/// The pointer of the first value that differs.
fn first_difference(stands: &Value, expected: &Value, at: String) -> String {
    match (stands, expected) {
        (Value::Object(stands), Value::Object(expected)) if stands.keys().eq(expected.keys()) => {
            let differing = stands.iter().zip(expected.values()).find(|((_, one), other)| one != other);
            match differing {
                Some(((name, one), other)) => first_difference(one, other, format!("{at}/{name}")),
                None => at,
            }
        }
        (Value::Array(stands), Value::Array(expected)) if stands.len() == expected.len() => {
            let differing = stands.iter().zip(expected).enumerate().find(|(_, (one, other))| one != other);
            match differing {
                Some((index, (one, other))) => first_difference(one, other, format!("{at}/{index}")),
                None => at,
            }
        }
        _ => at,
    }
}

/// An audit log opens too little to fold its events. Its members are compared with what its events show; everything else is
/// not checked.
fn audit(read: &Read, mut findings: Findings, report: &mut Report) {
    let submitted = |pointer: &str| {
        let first = read.entries.first();
        first.and_then(|entry| entry.event.pointer(pointer)).cloned().unwrap_or_default()
    };
    if submitted("/change/type") != json!("submitted") {
        report.add(NAME, Findings::of("/events", "do not begin with a submission"), "");
        return;
    }
    let kind = submitted("/change/intent/kind");
    let signs = kind == json!("payment") || kind == json!("asset_action");
    let types = read.entries.iter().rev().filter_map(|entry| entry.event.pointer("/change/type"));
    let state = types.filter_map(Value::as_str).find_map(|change| State::after(change, signs));
    let [id, family, state_name, total] = IDENTITY;
    let expected = Map::from_iter([
        (id.to_owned(), submitted("/change/operation_id")),
        (family.to_owned(), json!(if kind == json!("payment") { "product" } else { "custody" })),
        (state_name.to_owned(), json!(state)),
        (total.to_owned(), json!(read.entries.len())),
    ]);
    compared(&read.members, &expected, &mut findings);
    let shown = |name: &str| expected.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let seen = format!("`{}` is `{}` after {} events", shown(id), shown(state_name), read.entries.len());
    report.add(NAME, findings, seen);
    let why = "the intent, the policy's decisions, approvals, the admission, receipts and the signature: an audit log opens too \
               little of them, and the evidence has all of it";
    report.not_checked("what others signed", why);
}
