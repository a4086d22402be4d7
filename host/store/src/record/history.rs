//! Rebuilds records from their events: an operation from its own chain, keys from the operations that changed them.
//!
//! The gateway compares an operation or key that it reads from disk with the rebuilt one. `ledger fsck` compares all
//! records.

use crate::record::encode::FORMAT;
use crate::record::finding::{Report, report};
use crate::sql::row::{Hashes, Row};
use gateway_domain::evidence;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::key::CustodyKey;
use gateway_domain::key::transitions::{self, Keys};
use gateway_domain::operation::{Change, Event, Operation, replay};
use gateway_domain::redaction::Salt;
use std::collections::BTreeMap;

/// The events of the operations from one id to another.
pub(crate) const EVENTS: &str =
    "SELECT ledger_index, operation_id, seq, event_hash, salt, format, body FROM events
    WHERE operation_id BETWEEN $1 AND $2 ORDER BY operation_id, seq";

/// Columns of `operations` that do not follow from its events: the log's root follows from all entries, and nothing follows from the others
/// but when the reconciler tries again.
pub(crate) const CHECKED_ELSEWHERE: [&str; 3] = ["ledger_root", "due_ms", "waited_ms"];

/// The result of following an operation's chain of events.
pub(crate) struct Chain {
    /// The number of the last event.
    pub(crate) last_seq: i64,
    /// The indexes of the events in the log.
    pub(crate) ledger_indexes: Vec<i64>,
    /// `None` if the chain is broken; the findings say where.
    pub(crate) history: Option<History>,
}

/// An operation from its first event to its last.
pub(crate) struct History {
    /// After all events.
    pub(crate) operation: Operation,
    pub(crate) events: Vec<Event>,
    pub(crate) record_root: Hex32,
}

/// How far a chain was followed.
struct Walk {
    seq: i64,
    /// The hash of the previous event. `None` after a missing event, or one whose hash cannot be read.
    previous: Option<Hex32>,
    events: Vec<Event>,
    is_sound: bool,
}

/// Follows the chain of an operation. `rows` are ordered by `seq`.
pub(crate) fn follow(id: &str, rows: &[Row], findings: &mut Report<'_>) -> Chain {
    let mut walk = Walk { seq: 0, previous: Some(Hex32::ZERO), events: Vec::new(), is_sound: true };
    for row in rows {
        walk.link(id, row, findings);
    }
    let ledger_indexes = rows.iter().filter_map(|row| row.integer("ledger_index")).collect();
    Chain { last_seq: walk.seq, ledger_indexes, history: walk.history(rows, findings) }
}

/// Reports that events of an operation are missing.
pub(crate) fn report_missing(findings: &mut Report<'_>, id: &str, first: i64, last: i64) {
    let which = if first == last { format!("seq {first}") } else { format!("seq {first} to {last}") };
    report(findings, "events", format!("{which} of operation {id}"), "missing");
}

impl Walk {
    /// Checks the next event and its hash.
    fn link(&mut self, id: &str, row: &Row, findings: &mut Report<'_>) {
        let mut problems = Vec::new();
        let seq = row.integer("seq").unwrap_or_default();
        let due = self.seq.saturating_add(1);
        if seq < due {
            problems.push(format!("`seq` is {seq}, but {due} or more was expected"));
        } else if seq > due {
            report_missing(findings, id, due, seq.saturating_sub(1));
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
                if let (Some(hash), Some(salt), Some(previous)) = (hash, salt, self.previous) {
                    let fault = evidence::fault(previous, &event, &salt, hash);
                    problems.extend(fault.map(|fault| fault.to_string()));
                }
                self.events.push(event);
            }
        }
        self.previous = hash;
        for problem in problems {
            self.is_sound = false;
            report(findings, "events", name(row), problem);
        }
    }

    /// The history, if all events are sound and begin with the submission of the operation.
    fn history(self, rows: &[Row], findings: &mut Report<'_>) -> Option<History> {
        let (first, record_root) = (rows.first()?, self.previous?);
        if !self.is_sound {
            return None;
        }
        let operation = replay(&self.events);
        let is_of = |id: OperationId| first.hash("operation_id") == Some(id.0);
        let Some(operation) = operation.filter(|operation| is_of(operation.id)) else {
            report(findings, "events", name(first), "not the submission of its operation");
            return None;
        };
        Some(History { operation, events: self.events, record_root })
    }
}

/// Keys rebuilt from the events of several operations, applied in the order of the log.
#[derive(Default)]
pub(crate) struct KeyFold {
    pub(crate) keys: BTreeMap<KeyId, CustodyKey>,
    /// Operations that may still change a key, as they were submitted: the fields that a key takes from its operation never
    /// change.
    open: BTreeMap<Hex32, Operation>,
}

impl KeyFold {
    /// The operation with this id, if it may still change a key.
    pub(crate) fn open(&self, id: Hex32) -> Option<&Operation> {
        self.open.get(&id)
    }

    /// Applies one more event of this operation to its keys.
    pub(crate) fn apply(&mut self, operation: Operation, event: &Event) {
        let key_of = |id| self.keys.get(&id).cloned();
        let subject = key_of(operation.key.key_id);
        let successor = operation.successor.as_ref().and_then(|slot| key_of(slot.key_id));
        let after = transitions::after(Keys { subject, successor }, &operation, event);
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

fn name(row: &Row) -> String {
    row.named(&["ledger_index", "seq", "operation_id"])
}

/// Parses a body. It must have exactly the bytes that the gateway would write. The parser's message is not used,
/// because it may quote the body.
fn event(body: &str) -> Result<Event, String> {
    let event: Event = serde_json::from_str(body)
        .map_err(|error| format!("`body` is not an event, at character {}", error.column()))?;
    match serde_json::to_string(&event) {
        Ok(written) if written == body => Ok(event),
        Ok(_) | Err(_) => Err("`body` is not in the form that the gateway writes".to_owned()),
    }
}
