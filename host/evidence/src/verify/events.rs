//! Checks the hash chain, the times, and that disclosed fields match their commitments.

use super::pages::{Document, hash};
use crate::document::{Entry, Kind};
use crate::report::{Findings, Report};
use gateway_domain::evidence::event_hash;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::Event;
use gateway_domain::redaction::{self, Opened};
use serde_json::Value;

/// The field that is not disclosed before publication.
const SIGNATURE: &str = "/change/signature/signature_hex";
const SIGNATURE_PARENT: &str = "/change/signature";

/// The events of a document, with their disclosed fields.
pub(crate) struct History {
    /// The events that could be read, in order. Empty for an audit log, which discloses too little.
    pub(crate) events: Vec<Event>,
    /// Whether all events of the operation are present, chained and readable.
    pub(crate) is_whole: bool,
}

/// Checks hashes, numbers, times and disclosed fields.
pub(crate) fn check(document: &Document, report: &mut Report) -> History {
    let mut findings = Findings::default();
    let (last, n_missing) = check_chain(document, &mut findings);
    let has_last = check_last(document, last, &mut findings);
    let numbers = (document.entries.first(), document.entries.last());
    let (from, to) = (numbers.0.map_or(0, |entry| entry.seq), numbers.1.map_or(0, |entry| entry.seq));
    let is_complete = from == 1 && n_missing == 0 && has_last;
    let is_whole = is_complete && findings.is_empty();
    // Event numbers are not hashed, so they are reported only for a complete history.
    let seen = if is_whole { format!("events 1 to {to} of {to}") } else { linked_summary(document) };
    report.add("chain", findings, seen);
    if !is_complete {
        report.not_checked("pages", missing_pages(from, n_missing, has_last));
    }
    check_times(&document.entries, report);
    open_fields(document, is_whole, report)
}

fn linked_summary(document: &Document) -> String {
    format!("{} events, each linked to the one before it where that one is present", document.entries.len())
}

/// Why the pages are not the complete history.
fn missing_pages(from: u64, n_missing: u64, has_last: bool) -> String {
    let mut why = Vec::new();
    if from != 1 {
        why.push("the first event is missing".to_owned());
    }
    if n_missing > 0 {
        why.push(format!("{n_missing} events in between are missing"));
    }
    if !has_last {
        why.push("the last event is missing".to_owned());
    }
    format!("{}: pass every page, starting with `?after_seq=0`", why.join(", "))
}

/// Checks that each hash is of its event and the previous hash. Returns the last hash, and the number of events that
/// are missing between the others.
fn check_chain(document: &Document, findings: &mut Findings) -> (Hex32, u64) {
    let (mut previous, mut due, mut n_missing) = (Hex32::ZERO, 1, 0_u64);
    for (index, entry) in document.entries.iter().enumerate() {
        let stated = document.before.get(&entry.seq).copied();
        if entry.seq == due {
            if stated.is_some_and(|stated| stated != previous) {
                findings.add("/previous_hash", "is not the hash of the previous event, or zeros for event 1");
            }
        } else {
            if index > 0 {
                n_missing = n_missing.saturating_add(entry.seq.saturating_sub(due));
            }
            previous = stated.unwrap_or(Hex32::ZERO);
        }
        match event_hash(previous, &entry.event) {
            Ok(hash) if hash == entry.event_hash => {}
            Ok(_) | Err(_) => {
                let what = format!(
                    "event {} does not hash to its `event_hash` with the hash of the previous event",
                    entry.seq
                );
                findings.add(format!("/events/{index}/event"), what);
            }
        }
        (previous, due) = (entry.event_hash, entry.seq.saturating_add(1));
    }
    (previous, n_missing)
}

/// Checks `record_root`, the hash of the operation's last event, which the log proof covers. Returns whether that event is
/// present.
fn check_last(document: &Document, hash_of_last: Hex32, findings: &mut Findings) -> bool {
    let Some(record_root) = hash(&document.members, "record_root") else {
        findings.add("/record_root", "is not a hash");
        return false;
    };
    let last = document.entries.last().map_or(0, |entry| entry.seq);
    let total = document.members.get("total_events").and_then(Value::as_u64).unwrap_or(0);
    let has_last = record_root == hash_of_last && !document.entries.is_empty();
    if last == total && !has_last {
        findings.add("/record_root", "is not the hash of the last event");
    }
    if last > total || (last < total && has_last) {
        findings.add("/total_events", format!("is {total}, but the last event is {last}"));
    }
    has_last
}

/// Checks that times do not go back.
fn check_times(entries: &[Entry], report: &mut Report) {
    let (mut findings, mut previous, mut first) = (Findings::default(), 0_u64, None);
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("/events/{index}/event/at_ms");
        match entry.event.get("at_ms").and_then(Value::as_u64) {
            None => findings.add(at, "is not a timestamp"),
            Some(at_ms) if at_ms < previous => {
                findings.add(at, format!("goes back: the previous event has {previous}"));
            }
            Some(at_ms) => {
                first.get_or_insert(at_ms);
                previous = at_ms;
            }
        }
    }
    if let Some(first) = first {
        report.add("times", findings, format!("in order, from {first} to {previous}"));
    }
}

/// Checks the disclosed fields against their commitments. For evidence, parses the events.
fn open_fields(document: &Document, has_all: bool, report: &mut Report) -> History {
    let (mut findings, mut events, mut n_opened) = (Findings::default(), Vec::new(), 0_usize);
    for (index, entry) in document.entries.iter().enumerate() {
        n_opened = n_opened.saturating_add(entry.disclosures.len());
        match redaction::open(entry.event.clone(), &entry.disclosures) {
            Ok(opened) if document.kind == Kind::Evidence => match event(opened) {
                Ok(event) => events.push(event),
                Err(what) => findings.add(format!("/events/{index}/event"), what),
            },
            Ok(_) => {}
            Err(error) => findings.add(format!("/events/{index}/disclosures"), error.to_string()),
        }
    }
    report.add("opened fields", findings, format!("{n_opened} match their commitments"));
    let is_whole = has_all && (document.kind == Kind::Audit || events.len() == document.entries.len());
    History { events, is_whole }
}

/// Parses an event. Rejects unknown members, and fields that are not disclosed. An unpublished signature need not be
/// disclosed, and becomes empty.
fn event(opened: Opened) -> Result<Event, String> {
    const UNKNOWN: &str = "is not an event that this version knows";
    let mut value = opened.event;
    for path in &opened.closed {
        if path != SIGNATURE {
            return Err(format!("does not disclose `{path}`, as evidence must"));
        }
        let signature = value.pointer_mut(SIGNATURE_PARENT).and_then(Value::as_object_mut).ok_or(UNKNOWN)?;
        signature.insert("signature_hex".to_owned(), Value::from(""));
    }
    let event: Event = serde_json::from_value(value.clone()).map_err(|_| UNKNOWN)?;
    match serde_json::to_value(&event) {
        Ok(written) if written == value => Ok(event),
        Ok(_) | Err(_) => Err(UNKNOWN.to_owned()),
    }
}
