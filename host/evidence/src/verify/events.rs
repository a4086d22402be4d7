//! The chain: every event has the hash it says, follows the one before it, and opens to what was committed.

use super::report::{Findings, Report};
use super::{Kind, Read};
use crate::document::Entry;
use gateway_domain::evidence::event_hash;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::Event;
use gateway_domain::redaction::{self, Opened};
use serde_json::{Map, Value};

/// The members that pages of one document may differ in.
const OF_A_PAGE: [&str; 4] = ["events", "next_after_seq", "previous_hash", "truncated"];

/// Takes the pages together.
pub(crate) fn read(pages: Vec<Value>, report: &mut Report) -> Option<Read> {
    let (mut findings, mut read) = (Findings::default(), None);
    for page in pages {
        let one = match page_of(page) {
            Ok(one) => one,
            Err(found) => {
                report.add("form", found, "");
                return None;
            }
        };
        match &mut read {
            None => read = Some(one),
            Some(whole) => join(whole, one, &mut findings),
        }
    }
    let read = read?;
    report.add("form", findings, format!("`{}`", read.kind.format()));
    Some(read)
}

fn page_of(page: Value) -> Result<Read, Findings> {
    let Value::Object(mut members) = page else { return Err(Findings::of("", "is not a JSON object")) };
    let format = members.get("format").and_then(Value::as_str).unwrap_or_default();
    let kind = Kind::of(format)
        .ok_or_else(|| Findings::of("/format", format!("the format `{format}` is not known here")))?;
    let events = members.remove("events").unwrap_or_default();
    let entries: Vec<Entry> = serde_json::from_value(events)
        .map_err(|error| Findings::of("/events", format!("are not events: {error}")))?;
    Ok(Read { kind, members, entries, is_joined: false })
}

/// Pages say the same of the operation, and the events of one go on after those of the other.
fn join(whole: &mut Read, page: Read, findings: &mut Findings) {
    for (name, value) in &page.members {
        if !OF_A_PAGE.contains(&name.as_str()) && whole.members.get(name) != Some(value) {
            findings.add(format!("/{name}"), "is another in another page");
        }
    }
    let last = whole.entries.last().map_or(0, |entry| entry.seq);
    whole.is_joined = true;
    whole.entries.extend(page.entries.into_iter().filter(|entry| entry.seq > last));
}

/// What is closed until publication.
const SIGNATURE: &str = "/change/signature/signature_hex";
const SIGNATURE_PARENT: &str = "/change/signature";

/// The events of a document, opened.
pub(crate) struct History {
    /// Those that could be read, with their places.
    pub(crate) events: Vec<Event>,
    /// Whether these are all events of the operation, and each could be read.
    pub(crate) is_whole: bool,
}

/// Checks hashes, numbers and opened fields.
pub(crate) fn check(read: &Read, report: &mut Report) -> History {
    let mut findings = Findings::default();
    let mut previous = hash(&read.members, "previous_hash", &mut findings);
    let stands_first = read.entries.first().map_or(1, |entry| entry.seq);
    let first = if previous == Hex32::ZERO { 1 } else { stands_first };
    if first == 1 && previous != Hex32::ZERO {
        findings.add("/previous_hash", "nothing comes before the first event, and a hash stands here");
    }
    for ((index, entry), seq) in read.entries.iter().enumerate().zip(first..) {
        if entry.seq != seq {
            findings.add(
                format!("/events/{index}/seq"),
                format!("event {seq} is due, and {} stands here", entry.seq),
            );
        }
        match event_hash(previous, &entry.event) {
            Ok(hash) if hash == entry.event_hash => {}
            Ok(_) | Err(_) => {
                let what = format!(
                    "event {seq} does not have the hash that stands in `event_hash`, after the one before it"
                );
                findings.add(format!("/events/{index}/event"), what);
            }
        }
        previous = entry.event_hash;
    }
    let last = read.entries.last().map_or(0, |entry| entry.seq);
    let total = number(&read.members, "total_events", &mut findings);
    let record_root = hash(&read.members, "record_root", &mut findings);
    if last == total && record_root != previous {
        findings.add("/record_root", "is not the hash of the last event");
    }
    if last > total || (last < total && record_root == previous) {
        findings.add("/total_events", format!("event {last} is the last, and {total} stands here"));
    }
    let has_all = first == 1 && last == total;
    if !read.is_joined {
        page_members(read, has_all, last, total, &mut findings);
    }
    report.add("chain", findings, format!("events {first} to {last} of {total}"));
    open(read, has_all, report)
}

/// What a page says of itself.
fn page_members(read: &Read, has_all: bool, last: u64, total: u64, findings: &mut Findings) {
    let expected = [
        ("truncated", Value::from(!has_all)),
        ("next_after_seq", if (1..total).contains(&last) { Value::from(last) } else { Value::Null }),
    ];
    for (name, expected) in expected {
        if read.members.get(name) != Some(&expected) {
            findings.add(format!("/{name}"), format!("must be {expected} with these events"));
        }
    }
}

fn open(read: &Read, has_all: bool, report: &mut Report) -> History {
    let (mut findings, mut events, mut n_opened) = (Findings::default(), Vec::new(), 0_usize);
    for (index, entry) in read.entries.iter().enumerate() {
        n_opened = n_opened.saturating_add(entry.disclosures.len());
        match redaction::open(entry.event.clone(), &entry.disclosures) {
            Ok(opened) if read.kind == Kind::Evidence => match event(opened) {
                Some(event) => events.push(event),
                None => findings
                    .add(format!("/events/{index}/event"), "is not an event as this version knows them"),
            },
            Ok(_) => {}
            Err(error) => findings.add(format!("/events/{index}/disclosures"), error.to_string()),
        }
    }
    report.add("opened fields", findings, format!("{n_opened} are what was committed to"));
    let is_whole = has_all && events.len() == read.entries.len();
    History { events, is_whole }
}

/// What has a member more than an event has is none. A signature that is not published stands empty.
fn event(opened: Opened) -> Option<Event> {
    let mut value = opened.event;
    if opened.closed.iter().any(|path| path == SIGNATURE) {
        let signature = value.pointer_mut(SIGNATURE_PARENT).and_then(Value::as_object_mut)?;
        signature.insert("signature_hex".to_owned(), Value::from(""));
    }
    let event: Event = serde_json::from_value(value.clone()).ok()?;
    (serde_json::to_value(&event).ok() == Some(value)).then_some(event)
}

fn hash(members: &Map<String, Value>, name: &str, findings: &mut Findings) -> Hex32 {
    let found = members.get(name).and_then(Value::as_str).and_then(|text| text.parse().ok());
    if found.is_none() {
        findings.add(format!("/{name}"), "is not a hash");
    }
    found.unwrap_or(Hex32::ZERO)
}

fn number(members: &Map<String, Value>, name: &str, findings: &mut Findings) -> u64 {
    let found = members.get(name).and_then(Value::as_u64);
    if found.is_none() {
        findings.add(format!("/{name}"), "is not a number");
    }
    found.unwrap_or(0)
}
