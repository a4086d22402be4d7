//! The document: an operation's events as they were hashed, and the members that follow from them.

use crate::summary::{identity, summary};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::json::{self, Floats, NotJson};
use gateway_domain::log::TlogProof;
use gateway_domain::operation::{Event, Operation, Phase};
use gateway_domain::redaction::{Disclosure, Visibility};
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the operation's parties. Discloses all fields except sealed ones; the signature only after its publication.
    Evidence,
    /// For auditors. Does not disclose free texts, fields that identify accounts, and digests from which either could be guessed.
    Audit,
}

impl Kind {
    /// The document's `format`. Every change of the format changes this name.
    #[must_use]
    pub const fn format(self) -> &'static str {
        match self {
            Self::Evidence => "svc/evidence/v4",
            Self::Audit => "svc/audit-log/v3",
        }
    }

    pub(crate) fn of(format: &str) -> Option<Self> {
        [Self::Evidence, Self::Audit].into_iter().find(|kind| kind.format() == format)
    }

    /// The names of all members except `events`.
    pub(crate) const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Evidence => &EVIDENCE,
            Self::Audit => &AUDIT,
        }
    }

    fn discloses(self, visibility: Visibility, is_published: bool) -> bool {
        match visibility {
            Visibility::Sealed => false,
            Visibility::Published => is_published && self == Self::Evidence,
            Visibility::Masked | Visibility::Parties => self == Self::Evidence,
        }
    }
}

const AUDIT: [&str; 11] = [
    "family",
    "format",
    "ledger_root",
    "log",
    "next_after_seq",
    "operation_id",
    "previous_hash",
    "record_root",
    "state",
    "total_events",
    "truncated",
];

const EVIDENCE: [&str; 29] = [
    "approvals",
    "decision",
    "effects",
    "external_export",
    "family",
    "format",
    "intent",
    "intent_hash",
    "key",
    "key_id",
    "key_ref",
    "ledger_root",
    "log",
    "next_after_seq",
    "operation_id",
    "policy",
    "previous_hash",
    "publication_receipt",
    "receipts",
    "record_root",
    "result",
    "result_ref",
    "state",
    "stated_at_ms",
    "statement",
    "submitter",
    "tenant",
    "total_events",
    "truncated",
];

/// The selection of events for a page of a document.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Selects the first events after this number; `None` selects the last events.
    pub after_seq: Option<u64>,
    /// The largest page, in bytes of compact JSON. A page may be without events.
    pub bytes_max: usize,
}

/// The inputs of a document.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The operation after its events.
    pub operation: &'a Operation,
    /// All events of the operation, oldest first.
    pub events: &'a [ChainedEvent],
    /// Root of the log of all events, right after the operation's last event.
    pub ledger_root: Hex32,
    /// The proof that the last event is in the log.
    pub log: Option<LogProof<'a>>,
}

/// The proof that an operation's last event is in the log.
#[derive(Clone, Copy, Debug)]
pub struct LogProof<'a> {
    /// The proof that it is in the signed log.
    pub tlog: &'a TlogProof,
    /// The proof that the log at [`Source::ledger_root`] is a prefix of the signed one.
    pub consistency: &'a [Hex32],
}

impl Source<'_> {
    /// The statement for the log's key to sign.
    #[must_use]
    pub fn statement(&self, now: EpochMs) -> LastEventStatement {
        LastEventStatement {
            operation_id: self.operation.id,
            record_root: self.record_root(),
            log_size: self.log.map_or(0, |log| log.tlog.checkpoint.unverified().size()),
            // The clock may have been set back since the operation's last event.
            stated_at_ms: now.max(self.operation.updated_at_ms),
        }
    }

    /// The hash of the last event.
    fn record_root(&self) -> Hex32 {
        self.events.last().map_or(Hex32::ZERO, |last| last.hash)
    }
}

/// What the log's key signs for a document: that this was the operation's last event at this time. A reader of a longer history with
/// earlier events can prove that the gateway withheld them. It is bound to one document, so that it cannot be pasted into another.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LastEventStatement {
    /// The operation whose evidence this is.
    pub operation_id: OperationId,
    /// The hash of its last event.
    pub record_root: Hex32,
    /// The size of the log in the document's signed checkpoint.
    pub log_size: u64,
    /// The time of the statement.
    pub stated_at_ms: EpochMs,
}

/// An event in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The event's number, from 1.
    pub seq: u64,
    /// The hash of this event and the hash of the previous one: see [`gateway_domain::evidence::event_hash`].
    pub event_hash: Hex32,
    /// The event, with commitments in place of fields.
    pub event: Value,
    /// The openings of the commitments that are disclosed.
    pub disclosures: Vec<Disclosure>,
}

/// The subject of a signed [`LastEventStatement`] (see [`gateway_domain::log::statement`]).
pub const LAST_EVENT: &str = "last-event";

/// Bytes reserved for the members that depend on the selected events.
const MARGIN_BYTES: usize = 256;

/// Writes a page of the document, with as many events as fit. Evidence needs the signed statement with its time, an audit log has none.
///
/// # Errors
/// [`CanonicalError`], which does not occur for stored events.
pub fn write(
    kind: Kind,
    source: &Source<'_>,
    stated: Option<(&str, EpochMs)>,
    page: Page,
) -> Result<Value, CanonicalError> {
    let mut members = head(kind, source, stated);
    let n_head = Value::Object(members.clone()).to_string().len();
    let room = page.bytes_max.saturating_sub(n_head).saturating_sub(MARGIN_BYTES);
    let shown = entries(kind, source, page.after_seq, room)?;
    let last = shown.last().map(|entry| entry.seq);
    let n_shown = u64::try_from(shown.len()).unwrap_or(u64::MAX);
    let total = u64::try_from(source.events.len()).unwrap_or(u64::MAX);
    let first = shown.first().map_or(1, |entry| entry.seq);
    let before = first.checked_sub(2).and_then(|index| usize::try_from(index).ok());
    let previous = before.and_then(|index| source.events.get(index)).map_or(Hex32::ZERO, |event| event.hash);
    members.insert("previous_hash".to_owned(), json!(previous));
    members.insert("truncated".to_owned(), json!(n_shown < total));
    members.insert("next_after_seq".to_owned(), json!(last.filter(|last| *last < total)));
    members.insert("events".to_owned(), json!(shown));
    Ok(Value::Object(members))
}

/// Parses a page of a document, for verification.
pub fn parse(text: &[u8]) -> Result<Value, NotJson> {
    json::parse(text, Floats::Allowed)
}

/// The members of a page that do not depend on the selected events.
fn head(kind: Kind, source: &Source<'_>, stated: Option<(&str, EpochMs)>) -> Map<String, Value> {
    let n_events = source.events.len();
    let mut members = match kind {
        Kind::Audit => identity(source.operation, n_events),
        Kind::Evidence => {
            let events: Vec<Event> = source.events.iter().map(|chained| chained.event.clone()).collect();
            summary(source.operation, &events)
        }
    };
    if let Some((statement, at_ms)) = stated {
        members.insert("stated_at_ms".to_owned(), json!(at_ms));
        members.insert("statement".to_owned(), json!(statement));
    }
    let log = source.log.map(|LogProof { tlog, consistency }| {
        json!({ "index": tlog.index, "proof": tlog.to_string(), "consistency": consistency })
    });
    members.insert("format".to_owned(), json!(kind.format()));
    members.insert("record_root".to_owned(), json!(source.record_root()));
    members.insert("ledger_root".to_owned(), json!(source.ledger_root));
    members.insert("log".to_owned(), json!(log));
    members
}

/// The last events that fit, or the first ones after `after_seq`, in ascending order.
fn entries(
    kind: Kind,
    source: &Source<'_>,
    after_seq: Option<u64>,
    bytes_max: usize,
) -> Result<Vec<Entry>, CanonicalError> {
    let all = source.events.iter().enumerate();
    let wanted: &mut dyn Iterator<Item = (usize, &ChainedEvent)> = match after_seq {
        Some(after) => &mut all.skip(usize::try_from(after).unwrap_or(usize::MAX)),
        None => &mut all.rev(),
    };
    let (mut shown, mut n_bytes) = (Vec::new(), 0_usize);
    for (index, chained) in wanted {
        let entry = entry(kind, source, index, chained)?;
        n_bytes = n_bytes.saturating_add(json!(entry).to_string().len()).saturating_add(1);
        if n_bytes > bytes_max {
            break;
        }
        shown.push(entry);
    }
    shown.sort_by_key(|entry| entry.seq);
    Ok(shown)
}

fn entry(
    kind: Kind,
    source: &Source<'_>,
    index: usize,
    chained: &ChainedEvent,
) -> Result<Entry, CanonicalError> {
    let seq = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
    let is_published = source.operation.phase == Phase::Published;
    let redacted = chained.redact()?;
    Ok(Entry {
        seq,
        event_hash: chained.hash,
        event: redacted.event.clone(),
        disclosures: redacted.disclosures(|visibility| kind.discloses(visibility, is_published)),
    })
}
