//! What the events make of the operation, and whether the document says the same.

use super::events::History;
use super::report::{Findings, Report};
use super::{Kind, Read};
use crate::course::course;
use crate::summary::{IDENTITY, summary};
use gateway_domain::operation::{Event, Operation, State, may_happen, replay};
use serde_json::{Map, Value, json};

/// An operation and its whole history.
pub(crate) struct Story {
    pub(crate) operation: Operation,
    pub(crate) events: Vec<Event>,
}

/// Members that do not follow from events: each is checked elsewhere.
const ELSEWHERE: [&str; 9] = [
    "format",
    "record_root",
    "ledger_root",
    "log",
    "key",
    "key_note",
    "previous_hash",
    "truncated",
    "next_after_seq",
];

pub(crate) fn check(read: &Read, history: History, report: &mut Report) -> Option<Story> {
    if read.kind == Kind::Audit {
        audit(read, report);
        return None;
    }
    if !history.is_whole {
        report.open("operation", "events are missing: give the earlier pages too (`?after_seq=0`)");
        return None;
    }
    let Some(operation) = replay(&history.events) else {
        report.add("operation", Findings::of("/events", "do not begin with a submission"), "");
        return None;
    };
    let story = Story { operation, events: history.events };
    let mut findings = compared(&read.members, &summary(&story.operation, &story.events));
    match story.operation.intent.hash() {
        Ok(hash) => {
            findings.same("/intent_hash", "the hash of the intent", &story.operation.intent_hash, &hash)
        }
        Err(error) => findings.add("/intent", error.to_string()),
    }
    out_of_order(&story.events, &mut findings);
    let seen = format!("`{}`, {} events say so", story.operation.state().as_str(), story.events.len());
    report.add("operation", findings, seen);
    Some(story)
}

/// A history is one that a gateway could have written: nothing is decided, admitted or signed twice, or before its time.
fn out_of_order(events: &[Event], findings: &mut Findings) {
    course(events, |index, before, event| {
        if !may_happen(before, &event.change) {
            let phase = before.phase.state().as_str();
            let what = format!("can not happen to an operation that is `{phase}`");
            findings.add(format!("/events/{index}/event/change/type"), what);
        }
    });
}

/// What stands in the document is what follows from its events, and nothing else stands in it.
fn compared(members: &Map<String, Value>, expected: &Map<String, Value>) -> Findings {
    let mut findings = Findings::default();
    for (name, expected) in expected {
        match members.get(name) {
            Some(stands) if stands == expected => {}
            Some(stands) => {
                let at = first_difference(stands, expected, format!("/{name}"));
                findings.add(at, "is not what follows from the events");
            }
            None => findings.add(format!("/{name}"), "is missing"),
        }
    }
    for name in members.keys() {
        if !expected.contains_key(name) && !ELSEWHERE.contains(&name.as_str()) {
            findings.add(format!("/{name}"), "no document has such a member");
        }
    }
    findings
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

/// An audit log says little of the operation, and its events open too little to fold: what it says is compared with
/// what stands open in them.
fn audit(read: &Read, report: &mut Report) {
    let mut expected = Map::new();
    let total = read.members.get("total_events").cloned().unwrap_or_default();
    expected.insert("total_events".to_owned(), total);
    if let Some(first) = read.entries.first().filter(|entry| entry.seq == 1) {
        let submitted = |pointer: &str| first.event.pointer(pointer).cloned().unwrap_or_default();
        expected.insert("operation_id".to_owned(), submitted("/change/operation_id"));
        let is_payment = submitted("/change/intent/kind") == json!("payment");
        expected.insert("family".to_owned(), json!(if is_payment { "product" } else { "custody" }));
    }
    let types = read.entries.iter().rev().filter_map(|entry| entry.event.pointer("/change/type"));
    if let Some(state) = types.filter_map(Value::as_str).find_map(State::after) {
        expected.insert("state".to_owned(), json!(state));
    }
    for name in IDENTITY {
        if let (None, Some(unknown)) = (expected.get(name), read.members.get(name)) {
            expected.insert(name.to_owned(), unknown.clone());
        }
    }
    report.add("operation", compared(&read.members, &expected), "the events say the same");
}
