//! The chain: every event has its hash after the one before it, is not earlier than it, and opens to what was committed.

use super::pages::{Read, hash};
use super::report::{Findings, Report};
use crate::document::{Entry, Kind};
use gateway_domain::evidence::event_hash;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::Event;
use gateway_domain::redaction::{self, Opened};
use serde_json::Value;

/// What is closed until publication.
const SIGNATURE: &str = "/change/signature/signature_hex";
const SIGNATURE_PARENT: &str = "/change/signature";

/// The events of a document, opened.
pub(crate) struct History {
    /// Those that could be read, in order. Empty for an audit log, which opens too little.
    pub(crate) events: Vec<Event>,
    /// Whether all events of the operation are here, chained, and could be read.
    pub(crate) is_whole: bool,
    /// The time of the last event, epoch milliseconds.
    pub(crate) last_at_ms: u64,
}

/// Checks hashes, numbers, times and opened fields.
pub(crate) fn check(read: &Read, report: &mut Report) -> History {
    let mut findings = Findings::default();
    let (last, n_missing) = chain(read, &mut findings);
    let has_last = ends(read, last, &mut findings);
    let numbers = (read.entries.first(), read.entries.last());
    let (from, to) = (numbers.0.map_or(0, |entry| entry.seq), numbers.1.map_or(0, |entry| entry.seq));
    let is_here = from == 1 && n_missing == 0 && has_last;
    let is_whole = is_here && findings.is_empty();
    // Numbers are not hashed: they count only in a whole history.
    let seen = if is_whole { format!("events 1 to {to} of {to}") } else { linked(read) };
    report.add("chain", findings, seen);
    if !is_here {
        report.not_checked("pages", missing(from, n_missing, has_last));
    }
    let last_at_ms = times(&read.entries, report);
    open(read, is_whole, last_at_ms, report)
}

fn linked(read: &Read) -> String {
    format!("{} events, each after the one before it as far as that is here", read.entries.len())
}

fn missing(from: u64, n_missing: u64, has_last: bool) -> String {
    let mut why = Vec::new();
    if from != 1 {
        why.push("the first event is not here".to_owned());
    }
    if n_missing > 0 {
        why.push(format!("{n_missing} events between these are not here"));
    }
    if !has_last {
        why.push("the last event is not here".to_owned());
    }
    format!("{}: give every page (`?after_seq=0` first)", why.join(", "))
}

/// Checks the hash of each event after the one before it. Returns the hash of the last and the number of events that are missing between.
fn chain(read: &Read, findings: &mut Findings) -> (Hex32, u64) {
    let (mut previous, mut due, mut n_missing) = (Hex32::ZERO, 1, 0_u64);
    for (index, entry) in read.entries.iter().enumerate() {
        let stated = read.before.get(&entry.seq).copied();
        if entry.seq == due {
            if stated.is_some_and(|stated| stated != previous) {
                findings
                    .add("/previous_hash", "is not the hash of the event before, or zeros before the first");
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
                    "event {} does not have the hash that stands in `event_hash`, after the one before it",
                    entry.seq
                );
                findings.add(format!("/events/{index}/event"), what);
            }
        }
        (previous, due) = (entry.event_hash, entry.seq.saturating_add(1));
    }
    (previous, n_missing)
}

/// Whether the last event of the operation is here: `record_root`, which is proved to be in the log, is its hash.
fn ends(read: &Read, hash_of_last: Hex32, findings: &mut Findings) -> bool {
    let Some(record_root) = hash(&read.members, "record_root") else {
        findings.add("/record_root", "is not a hash");
        return false;
    };
    let last = read.entries.last().map_or(0, |entry| entry.seq);
    let total = read.members.get("total_events").and_then(Value::as_u64).unwrap_or(0);
    let has_last = record_root == hash_of_last && !read.entries.is_empty();
    if last == total && !has_last {
        findings.add("/record_root", "is not the hash of the last event");
    }
    if last > total || (last < total && has_last) {
        findings.add("/total_events", format!("event {last} is the last, and {total} stands here"));
    }
    has_last
}

/// Checks that times never go back. Returns the time of the last event.
fn times(entries: &[Entry], report: &mut Report) -> u64 {
    let (mut findings, mut previous, mut first) = (Findings::default(), 0_u64, None);
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("/events/{index}/event/at_ms");
        match entry.event.get("at_ms").and_then(Value::as_u64) {
            None => findings.add(at, "is not a time"),
            Some(at_ms) if at_ms < previous => {
                findings.add(at, format!("goes back: the event before it is of {previous}"));
            }
            Some(at_ms) => {
                first.get_or_insert(at_ms);
                previous = at_ms;
            }
        }
    }
    if let Some(first) = first {
        report.add("times", findings, format!("never go back, from {first} to {previous}"));
    }
    previous
}

fn open(read: &Read, has_all: bool, last_at_ms: u64, report: &mut Report) -> History {
    let (mut findings, mut events, mut n_opened) = (Findings::default(), Vec::new(), 0_usize);
    for (index, entry) in read.entries.iter().enumerate() {
        n_opened = n_opened.saturating_add(entry.disclosures.len());
        match redaction::open(entry.event.clone(), &entry.disclosures) {
            Ok(opened) if read.kind == Kind::Evidence => match event(opened) {
                Ok(event) => events.push(event),
                Err(what) => findings.add(format!("/events/{index}/event"), what),
            },
            Ok(_) => {}
            Err(error) => findings.add(format!("/events/{index}/disclosures"), error.to_string()),
        }
    }
    report.add("opened fields", findings, format!("{n_opened} are what was committed to"));
    let is_whole = has_all && (read.kind == Kind::Audit || events.len() == read.entries.len());
    History { events, is_whole, last_at_ms }
}

/// Reads an event. Unknown members are refused, and so are closed fields other than an unpublished signature, which reads as
/// empty.
fn event(opened: Opened) -> Result<Event, String> {
    const UNKNOWN: &str = "is not an event as this version knows them";
    let mut value = opened.event;
    for path in &opened.closed {
        if path != SIGNATURE {
            return Err(format!("is closed at `{path}`, which evidence opens"));
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
