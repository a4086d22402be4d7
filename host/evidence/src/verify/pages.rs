//! Checks the form: a known format, exactly the members of the document's kind, and pages that agree.

use crate::document::{Entry, Kind};
use crate::report::{Findings, Report};
use gateway_domain::ids::Hex32;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const NAME: &str = "form";

/// The members in which the pages of a document may differ: those about the page's events, and those about the time of the
/// request.
const PAGE_MEMBERS: [&str; 6] =
    ["log", "next_after_seq", "previous_hash", "stated_at_ms", "statement", "truncated"];

/// A document, joined from its pages.
pub(crate) struct Document {
    pub(crate) kind: Kind,
    /// The members that all pages share.
    pub(crate) members: Map<String, Value>,
    /// The members of each page, without its events.
    pub(crate) pages: Vec<Map<String, Value>>,
    /// The events of all pages, ascending, each once.
    pub(crate) entries: Vec<Entry>,
    /// The `previous_hash` of each page, by the number of its first event.
    pub(crate) before: BTreeMap<u64, Hex32>,
}

struct Page {
    kind: Kind,
    members: Map<String, Value>,
    entries: Vec<Entry>,
}

/// Joins the pages. `None` if they could not be read.
pub(crate) fn read(pages: Vec<Value>, report: &mut Report) -> Option<Document> {
    let mut read = Vec::new();
    for page in pages {
        match parse_page(page) {
            Ok(page) => read.push(page),
            Err(findings) => {
                report.add(NAME, findings, "");
                return None;
            }
        }
    }
    let mut findings = Findings::default();
    let kind = read.first()?.kind;
    let members = shared_members(&read, &mut findings);
    let mut before = BTreeMap::new();
    for page in &read {
        check_members(page, &mut findings);
        check_page(page, &mut findings);
        if let (Some(first), Some(hash)) = (page.entries.first(), hash(&page.members, "previous_hash")) {
            let known = before.insert(first.seq, hash);
            if known.is_some_and(|known| known != hash) {
                findings.add("/previous_hash", "differs between pages with the same first event");
            }
        }
    }
    let (pages, entries) = merge_events(read, &mut findings);
    report.add(NAME, findings, format!("`{}`", kind.format()));
    Some(Document { kind, members, pages, entries, before })
}

fn parse_page(page: Value) -> Result<Page, Findings> {
    let wrong = |at: &str, what: String| Findings::of(at, what);
    let Value::Object(mut members) = page else { return Err(wrong("", "is not a JSON object".to_owned())) };
    let format = members.get("format").and_then(Value::as_str).unwrap_or_default();
    let kind =
        Kind::of(format).ok_or_else(|| wrong("/format", format!("the format `{format}` is unknown")))?;
    let events = members.remove("events").unwrap_or_default();
    let entries: Vec<Entry> = serde_json::from_value(events)
        .map_err(|error| wrong("/events", format!("are not events: {error}")))?;
    Ok(Page { kind, members, entries })
}

/// The members that all pages share. Checks that they are equal.
fn shared_members(pages: &[Page], findings: &mut Findings) -> Map<String, Value> {
    let mut members = Map::new();
    for (name, value) in pages.iter().flat_map(|page| &page.members) {
        if PAGE_MEMBERS.contains(&name.as_str()) {
            continue;
        }
        let first = members.entry(name).or_insert_with(|| value.clone());
        if first != value {
            findings.add(format!("/{name}"), "differs between pages");
        }
    }
    members
}

/// Checks that the page has exactly the members of its format.
fn check_members(page: &Page, findings: &mut Findings) {
    let names = page.kind.members();
    for name in page.members.keys().filter(|name| !names.contains(&name.as_str())) {
        findings.add(format!("/{name}"), "is not a member of this format");
    }
    for name in names.iter().filter(|name| !page.members.contains_key(**name)) {
        findings.add(format!("/{name}"), "is missing");
    }
}

/// Checks that the events of a page have consecutive numbers, and that `truncated` and `next_after_seq` match them.
fn check_page(page: &Page, findings: &mut Findings) {
    let first = page.entries.first().map_or(1, |entry| entry.seq);
    for ((index, entry), seq) in page.entries.iter().enumerate().zip(first.max(1)..) {
        if entry.seq != seq {
            let what = format!("is {}, but the next event is {seq}", entry.seq);
            findings.add(format!("/events/{index}/seq"), what);
        }
    }
    match hash(&page.members, "previous_hash") {
        None => findings.add("/previous_hash", "is not a hash"),
        Some(hash) if page.entries.is_empty() && hash != Hex32::ZERO => {
            findings.add("/previous_hash", "must be zeros on a page without events");
        }
        Some(_) => {}
    }
    let Some(total) = page.members.get("total_events").and_then(Value::as_u64) else {
        findings.add("/total_events", "is not a number");
        return;
    };
    let last = page.entries.last().map_or(0, |entry| entry.seq);
    let n_shown = u64::try_from(page.entries.len()).unwrap_or(u64::MAX);
    let expected = [
        ("truncated", Value::from(n_shown < total)),
        ("next_after_seq", if (1..total).contains(&last) { Value::from(last) } else { Value::Null }),
    ];
    for (name, expected) in expected {
        if page.members.get(name) != Some(&expected) {
            findings.add(format!("/{name}"), format!("must be {expected} for these events"));
        }
    }
}

/// Merges the events of all pages. Pages may overlap, but an event must be the same on each. Returns the members of
/// each page, and the events.
fn merge_events(pages: Vec<Page>, findings: &mut Findings) -> (Vec<Map<String, Value>>, Vec<Entry>) {
    let (mut members, mut merged) = (Vec::new(), BTreeMap::<u64, Entry>::new());
    for page in pages {
        members.push(page.members);
        for entry in page.entries {
            let known = merged.entry(entry.seq).or_insert_with(|| entry.clone());
            if *known != entry {
                findings.add("/events", format!("event {} differs between pages", entry.seq));
            }
        }
    }
    (members, merged.into_values().collect())
}

/// The member of this name, if it is a hash.
pub(crate) fn hash(members: &Map<String, Value>, name: &str) -> Option<Hex32> {
    members.get(name).and_then(Value::as_str).and_then(|text| text.parse().ok())
}
