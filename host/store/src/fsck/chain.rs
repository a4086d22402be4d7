//! One operation's events: readable, spelt as they are written, in order, each hashed onto the one before.

use super::{Check, Row};
use crate::encode::FORMAT;
use gateway_domain::evidence::{ChainedEvent, event_hash};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::{Event, replay};
use gateway_domain::redaction::Salt;
use gateway_engine::ports::Commit;

pub(super) const EVENTS: &str =
    "SELECT ledger_index, operation_id, seq, event_hash, salt, format, body FROM events
    WHERE operation_id = ?1 ORDER BY seq";

/// What an operation's events tell.
pub(super) struct Told {
    /// The last event's number.
    pub(super) seq: i64,
    /// The places of its events in the log.
    pub(super) ledger_indexes: Vec<i64>,
    /// None when something is wrong with them, which was found: what they make is not known then.
    pub(super) history: Option<History>,
}

/// An operation from its first event to its last.
pub(super) struct History {
    /// All of it, as if it had been one commit.
    pub(super) commit: Commit,
    pub(super) record_root: Hex32,
}

/// How far a chain was followed.
struct Chain {
    seq: i64,
    /// None after an event that is missing, or whose hash can not be read.
    previous: Option<Hex32>,
    events: Vec<Event>,
    is_sound: bool,
}

impl Check<'_> {
    /// Follows the chain of an operation, whose rows are in the order of their numbers.
    pub(super) fn chain(&mut self, id: &str, rows: &[Row]) -> Told {
        let mut chain = Chain { seq: 0, previous: Some(Hex32::ZERO), events: Vec::new(), is_sound: true };
        for row in rows {
            self.link(id, row, &mut chain);
        }
        let ledger_indexes = rows.iter().filter_map(|row| row.integer("ledger_index")).collect();
        let seq = chain.seq;
        Told { seq, ledger_indexes, history: self.history(rows, chain) }
    }

    fn link(&mut self, id: &str, row: &Row, chain: &mut Chain) {
        let mut problems = Vec::new();
        let seq = row.integer("seq").unwrap_or_default();
        let due = chain.seq.saturating_add(1);
        if seq < due {
            problems.push(format!("`seq` is {seq}, and numbers begin at 1"));
        } else if seq > due {
            self.missing(id, due, seq.saturating_sub(1));
            (chain.previous, chain.is_sound) = (None, false);
        }
        chain.seq = chain.seq.max(seq);
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
                chain.events.push(event.clone());
                if let (Some(hash), Some(salt), Some(previous)) = (hash, salt, chain.previous) {
                    problems.extend(hashed(&ChainedEvent { event, salt, hash }, previous).map(str::to_owned));
                }
            }
        }
        chain.previous = hash;
        for problem in problems {
            chain.is_sound = false;
            self.finding("events", named(row), problem);
        }
    }

    pub(super) fn missing(&mut self, id: &str, first: i64, last: i64) {
        let which = if first == last { format!("seq {first}") } else { format!("seq {first} to {last}") };
        self.finding("events", format!("{which} of operation {id}"), "missing");
    }

    fn history(&mut self, rows: &[Row], chain: Chain) -> Option<History> {
        let (first, record_root) = (rows.first()?, chain.previous?);
        if !chain.is_sound {
            return None;
        }
        let operation = replay(&chain.events);
        let is_of = |id: OperationId| first.hash("operation_id") == Some(id.0);
        let Some(operation) = operation.filter(|operation| is_of(operation.id)) else {
            self.finding("events", named(first), "it is not the submission of its operation");
            return None;
        };
        let events = chain.events;
        let (previous_record_root, keys, claim) = (Hex32::ZERO, Vec::new(), None);
        Some(History { commit: Commit { operation, events, previous_record_root, keys, claim }, record_root })
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
