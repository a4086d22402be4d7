//! What events make: an operation from its own chain, and keys from the operations that changed them.
//!
//! Whoever reads an operation or a key back compares it with this: the gateway before it acts on one that it did not write
//! itself since its start, and `ledger fsck` all of them.

use crate::encode::FORMAT;
use crate::fsck::Finding;
use crate::row::Row;
use gateway_domain::evidence::{ChainedEvent, event_hash};
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::key::{self, CustodyKey, Keys};
use gateway_domain::operation::{Change, Event, Operation, replay};
use gateway_domain::redaction::Salt;
use gateway_engine::ports::Commit;
use std::collections::BTreeMap;

pub(crate) const EVENTS: &str =
    "SELECT ledger_index, operation_id, seq, event_hash, salt, format, body FROM events
    WHERE operation_id = ?1 ORDER BY seq";

/// What an operation's events tell.
pub(crate) struct Replayed {
    /// The last event's number.
    pub(crate) seq: i64,
    /// The places of its events in the log.
    pub(crate) ledger_indexes: Vec<i64>,
    /// None when something is wrong with them, which was found: what they make is not known then.
    pub(crate) history: Option<History>,
}

/// An operation from its first event to its last.
pub(crate) struct History {
    /// All of it, as if it had been one commit.
    pub(crate) commit: Commit,
    pub(crate) record_root: Hex32,
}

/// How far a chain was followed.
struct Chain {
    seq: i64,
    /// None after an event that is missing, or whose hash can not be read.
    previous: Option<Hex32>,
    events: Vec<Event>,
    is_sound: bool,
}

/// Where what is wrong is told.
pub(crate) type Found<'a> = dyn FnMut(Finding) + Send + 'a;

/// Tells something that is wrong.
pub(crate) fn finding(found: &mut Found<'_>, table: &str, row: impl Into<String>, what: impl Into<String>) {
    found(Finding { table: table.to_owned(), row: row.into(), what: what.into() });
}

/// Follows the chain of an operation, whose rows are in the order of their numbers.
pub(crate) fn told(id: &str, rows: &[Row], found: &mut Found<'_>) -> Replayed {
    let mut chain = Chain { seq: 0, previous: Some(Hex32::ZERO), events: Vec::new(), is_sound: true };
    for row in rows {
        chain.link(id, row, found);
    }
    let ledger_indexes = rows.iter().filter_map(|row| row.integer("ledger_index")).collect();
    let seq = chain.seq;
    Replayed { seq, ledger_indexes, history: chain.history(rows, found) }
}

/// Tells that events of an operation are not there.
pub(crate) fn missing(found: &mut Found<'_>, id: &str, first: i64, last: i64) {
    let which = if first == last { format!("seq {first}") } else { format!("seq {first} to {last}") };
    finding(found, "events", format!("{which} of operation {id}"), "missing");
}

impl Chain {
    fn link(&mut self, id: &str, row: &Row, found: &mut Found<'_>) {
        let mut problems = Vec::new();
        let seq = row.integer("seq").unwrap_or_default();
        let due = self.seq.saturating_add(1);
        if seq < due {
            problems.push(format!("`seq` is {seq}, and numbers begin at 1"));
        } else if seq > due {
            missing(found, id, due, seq.saturating_sub(1));
            (self.previous, self.is_sound) = (None, false);
        }
        self.seq = self.seq.max(seq);
        if row.integer("format") != Some(FORMAT) {
            problems.push(format!("`format` is not {FORMAT}"));
        }
        let hash = row.hash("event_hash");
        if hash.is_none() {
            problems.push("`event_hash` is not 32 bytes".to_owned());
        }
        let salt = row.bytes("salt").and_then(|bytes| bytes.try_into().ok()).map(Salt::new);
        if salt.is_none() {
            problems.push("`salt` is not 32 bytes".to_owned());
        }
        match event(row.text("body").unwrap_or_default()) {
            Err(problem) => problems.push(problem),
            Ok(event) => {
                self.events.push(event.clone());
                if let (Some(hash), Some(salt), Some(previous)) = (hash, salt, self.previous) {
                    problems.extend(hashed(&ChainedEvent { event, salt, hash }, previous).map(str::to_owned));
                }
            }
        }
        self.previous = hash;
        for problem in problems {
            self.is_sound = false;
            finding(found, "events", named(row), problem);
        }
    }

    fn history(self, rows: &[Row], found: &mut Found<'_>) -> Option<History> {
        let (first, record_root) = (rows.first()?, self.previous?);
        if !self.is_sound {
            return None;
        }
        let operation = replay(&self.events);
        let is_of = |id: OperationId| first.hash("operation_id") == Some(id.0);
        let Some(operation) = operation.filter(|operation| is_of(operation.id)) else {
            finding(found, "events", named(first), "it is not the submission of its operation");
            return None;
        };
        let events = self.events;
        let (previous_record_root, keys, claim) = (Hex32::ZERO, Vec::new(), None);
        Some(History { commit: Commit { operation, events, previous_record_root, keys, claim }, record_root })
    }
}

/// Keys as the events of several operations make them, one event after the other in the order of the log.
#[derive(Default)]
pub(crate) struct KeyFold {
    pub(crate) keys: BTreeMap<KeyId, CustodyKey>,
    /// Operations that may still change a key, as they were submitted: what a key takes from one never changes.
    open: BTreeMap<Hex32, Operation>,
}

impl KeyFold {
    /// The operation of this id, if it may still change a key.
    pub(crate) fn open(&self, id: Hex32) -> Option<&Operation> {
        self.open.get(&id)
    }

    /// The keys after one more event of this operation.
    pub(crate) fn apply(&mut self, operation: Operation, event: &Event) {
        let key_of = |id| self.keys.get(&id).cloned();
        let subject = key_of(operation.key.key_id);
        let successor = operation.successor.as_ref().and_then(|slot| key_of(slot.key_id));
        let after = key::after(Keys { subject, successor }, &operation, &event.change);
        for key in [after.subject, after.successor].into_iter().flatten() {
            self.keys.insert(key.key_id, key);
        }
        if matches!(event.change, Change::Executed { .. } | Change::Failed { .. }) {
            self.open.remove(&operation.id.0);
        } else {
            self.open.insert(operation.id.0, operation);
        }
    }
}

/// What is wrong with the hash of an event, or with a salt that the hash says nothing of.
fn hashed(chained: &ChainedEvent, previous: Hex32) -> Option<&'static str> {
    let Ok(redacted) = chained.redact() else { return Some("the event can not be hashed") };
    if event_hash(previous, &redacted.event).ok() != Some(chained.hash) {
        return Some("`event_hash` does not follow from the event, its salt and the hash before");
    }
    let is_stray = redacted.hides_nothing() && chained.salt != Salt::UNUSED;
    is_stray.then_some("`salt` is not zero, and the event hides nothing")
}

fn named(row: &Row) -> String {
    row.named(&["ledger_index", "seq", "operation_id"])
}

/// The event in a body, which must be spelt as it is written: parser's words would repeat what is in it.
fn event(body: &str) -> Result<Event, String> {
    let event: Event = serde_json::from_str(body)
        .map_err(|error| format!("`body` is not an event, at character {}", error.column()))?;
    match serde_json::to_string(&event) {
        Ok(written) if written == body => Ok(event),
        Ok(_) | Err(_) => Err("`body` is not spelt as it is written".to_owned()),
    }
}
