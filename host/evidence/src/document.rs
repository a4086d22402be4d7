//! The file: an operation's events as the chain has them, and what they say.

use crate::summary::summary;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Event, Operation, Phase};
use gateway_domain::redaction::{Disclosure, Visibility};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the operation's parties: everything but what nobody may see.
    Evidence,
    /// For auditors: what identifies accounts and free texts stay closed.
    Audit,
}

impl Kind {
    /// The document's `format`. Another form is another name.
    #[must_use]
    pub const fn format(self) -> &'static str {
        match self {
            Self::Evidence => "svc/evidence/v1",
            Self::Audit => "svc/audit-log/v1",
        }
    }

    pub(crate) fn of(format: &str) -> Option<Self> {
        [Self::Evidence, Self::Audit].into_iter().find(|kind| kind.format() == format)
    }

    fn sees(self, visibility: Visibility, is_published: bool) -> bool {
        match visibility {
            Visibility::Sealed => false,
            Visibility::Published => is_published,
            Visibility::Masked | Visibility::Parties => self == Self::Evidence,
        }
    }
}

/// Which events a document has.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Those after this one, oldest first; none for the newest.
    pub after_seq: Option<u64>,
    /// Largest document, in bytes of compact JSON.
    pub bytes_max: usize,
}

/// What a document is made of.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The operation after its events.
    pub operation: &'a Operation,
    /// All of them, oldest first.
    pub events: &'a [ChainedEvent],
    /// Root of the log of all events, right after the operation's last.
    pub ledger_root: Hex32,
    /// That the last event is in the log, and that the log at [`Self::ledger_root`] is the beginning of the signed one.
    pub log: &'a Value,
    /// The key as it is now, which no event of the operation tells.
    pub key: &'a Value,
    /// The same, stated by the log's operator: see [`KEY_STATE`].
    pub key_note: &'a str,
}

/// An event in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// From 1.
    pub seq: u64,
    /// See [`gateway_domain::evidence::event_hash`].
    pub event_hash: Hex32,
    /// The event with commitments in it.
    pub event: Value,
    /// The commitments that are opened.
    pub disclosures: Vec<Disclosure>,
}

/// What the statement on a key is about (see [`gateway_domain::log::statement`]).
pub const KEY_STATE: &str = "key-state";

/// Bytes kept free for what is only known when the events are chosen.
const MARGIN_BYTES: usize = 256;

/// Writes documents.
#[derive(Clone, Copy, Debug)]
pub struct Document;

impl Document {
    /// The document, with as many events as the page has room for.
    ///
    /// # Errors
    /// [`CanonicalError`], which no stored event gives.
    pub fn write(kind: Kind, source: Source<'_>, page: Page) -> Result<Value, CanonicalError> {
        let mut members = head(kind, source);
        let n_head = Value::Object(members.clone()).to_string().len();
        let room = page.bytes_max.saturating_sub(n_head).saturating_sub(MARGIN_BYTES);
        let shown = entries(kind, source, page.after_seq, room)?;
        let last = shown.last().map(|entry| entry.seq);
        let n_shown = u64::try_from(shown.len()).unwrap_or(u64::MAX);
        let total = u64::try_from(source.events.len()).unwrap_or(u64::MAX);
        let first = shown.first().map_or(1, |entry| entry.seq);
        let before = first.checked_sub(2).and_then(|index| usize::try_from(index).ok());
        let previous =
            before.and_then(|index| source.events.get(index)).map_or(Hex32::ZERO, |event| event.hash);
        let rest = json!({
            "previous_hash": previous,
            "truncated": n_shown < total,
            "next_after_seq": last.filter(|last| *last < total),
            "events": shown,
        });
        if let Value::Object(rest) = rest {
            members.extend(rest);
        }
        Ok(Value::Object(members))
    }
}

fn head(kind: Kind, source: Source<'_>) -> Map<String, Value> {
    let events: Vec<Event> = source.events.iter().map(|chained| chained.event.clone()).collect();
    let mut members = summary(source.operation, &events);
    if kind == Kind::Audit {
        members.retain(|name, _| AUDIT_MEMBERS.contains(&name.as_str()));
    } else {
        members.insert("key".to_owned(), source.key.clone());
        members.insert("key_note".to_owned(), json!(source.key_note));
    }
    let record_root = source.events.last().map_or(Hex32::ZERO, |last| last.hash);
    members.insert("format".to_owned(), json!(kind.format()));
    members.insert("record_root".to_owned(), json!(record_root));
    members.insert("ledger_root".to_owned(), json!(source.ledger_root));
    members.insert("log".to_owned(), source.log.clone());
    members
}

/// What an audit log says besides its events.
pub(crate) const AUDIT_MEMBERS: [&str; 4] = ["operation_id", "family", "state", "total_events"];

fn entries(
    kind: Kind,
    source: Source<'_>,
    after_seq: Option<u64>,
    bytes_max: usize,
) -> Result<Vec<Entry>, CanonicalError> {
    let is_published = source.operation.phase == Phase::Published;
    let entry = |(index, chained): (usize, &ChainedEvent)| -> Result<Entry, CanonicalError> {
        let redacted = chained.redact()?;
        Ok(Entry {
            seq: u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1),
            event_hash: chained.hash,
            event: redacted.event.clone(),
            disclosures: redacted.disclosures(|visibility| kind.sees(visibility, is_published)),
        })
    };
    let (mut shown, mut n_bytes) = (Vec::new(), 0_usize);
    let mut take = |entry: Result<Entry, CanonicalError>| -> Result<bool, CanonicalError> {
        let entry = entry?;
        n_bytes = n_bytes.saturating_add(json!(entry).to_string().len()).saturating_add(1);
        let fits = n_bytes <= bytes_max;
        if fits {
            shown.push(entry);
        }
        Ok(fits)
    };
    let all = source.events.iter().enumerate();
    match after_seq {
        Some(after) => {
            let skipped = usize::try_from(after).unwrap_or(usize::MAX);
            for one in all.skip(skipped) {
                if !take(entry(one))? {
                    break;
                }
            }
        }
        None => {
            for one in all.rev() {
                if !take(entry(one))? {
                    break;
                }
            }
            shown.reverse();
        }
    }
    Ok(shown)
}
