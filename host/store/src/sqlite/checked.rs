//! Operations and keys read back from disk: each is what its events make it, or it is not handed out.
//!
//! What this process wrote itself since its start comes from memory ([`crate::cache`]). Everything else may have been changed
//! by another program while the gateway was stopped, and an operation acts on the world.

use crate::encode::{key_row, operation_row};
use crate::error::failed;
use crate::fsck::Finding;
use crate::fsck::keys::columns as key_columns;
use crate::fsck::operations::operation_columns;
use crate::history::{self, History, KeyFold, Replayed, finding};
use crate::row::{Cell, Row};
use crate::sqlite::Store;
use crate::sqlite::snapshot::rows;
use gateway_domain::ids::{KeyId, OperationId, Tenant};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::replay;
use gateway_engine::ports::{Damage, KeyChange, ReadError, Record, Subject};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const OPERATION: &str = "SELECT * FROM operations WHERE operation_id = ?1";
/// Another tenant's row is not read at all.
const OPERATION_OF: &str = "SELECT * FROM operations WHERE operation_id = ?1 AND tenant = ?2";
const KEY: &str = "SELECT * FROM custody_keys WHERE key_id = ?1";

/// What an event of an operation that may change a key is found by, in the words of the indexes on it.
macro_rules! opens_a_change {
    () => {
        "seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action')"
    };
}

/// The operations that may have changed a key (`?1`, hexadecimal) or one that it took the place of, and the signatures that
/// say they settled what one of them serves.
pub(super) const CHANGES: &str = concat!(
    "WITH RECURSIVE line (key_id) AS (SELECT ?1 UNION
         SELECT body ->> '$.change.key.key_id' FROM line CROSS JOIN events
         ON ",
    opens_a_change!(),
    " AND (body ->> '$.change.successor.key_id') = line.key_id),
     changes (operation_id) AS (
         SELECT operation_id FROM line CROSS JOIN events
         ON ",
    opens_a_change!(),
    " AND (body ->> '$.change.key.key_id') = line.key_id
         UNION SELECT operation_id FROM line CROSS JOIN events
         ON ",
    opens_a_change!(),
    " AND (body ->> '$.change.successor.key_id') = line.key_id
         UNION SELECT unhex(body ->> '$.serves_since') FROM line CROSS JOIN custody_keys AS key
         ON key.key_id = unhex(line.key_id) WHERE json_valid(body))
     SELECT ledger_index, operation_id, seq, event_hash, salt, events.format, events.body,
         operations.revision AS revision, operations.record_root AS record_root
     FROM changes CROSS JOIN events USING (operation_id) LEFT JOIN operations USING (operation_id)
     ORDER BY operation_id, seq"
);

/// Damaged records that are remembered: beyond it, each is still refused.
const REMEMBERED_MAX: usize = 1024;

/// The records that were damaged when they were last read.
#[derive(Debug, Default)]
pub(super) struct Damaged(Mutex<BTreeMap<Subject, String>>);

impl Damaged {
    /// Remembers a record that is damaged, forgets one that is sound again.
    fn settle<T>(&self, subject: Subject, made: Result<T, Finding>) -> Result<T, ReadError> {
        let mut damaged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match made {
            Ok(sound) => {
                damaged.remove(&subject);
                Ok(sound)
            }
            Err(finding) => {
                let detail = finding.to_string();
                if damaged.len() < REMEMBERED_MAX || damaged.contains_key(&subject) {
                    damaged.insert(subject, detail.clone());
                }
                Err(ReadError::Damaged(Damage { subject, detail }))
            }
        }
    }

    pub(super) fn list(&self) -> Vec<Damage> {
        let damaged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.iter().map(|(subject, detail)| Damage { subject: *subject, detail: detail.clone() }).collect()
    }
}

impl Store {
    /// The operation, if its row is what its events make it.
    pub(super) async fn operation_checked(
        &self,
        id: OperationId,
        tenant: Option<&Tenant>,
    ) -> Result<Option<Record>, ReadError> {
        let to_unavailable = |error| failed(format_args!("operation `{id}` could not be read"), &error);
        let read = async {
            let mut tx = self.database.reader().begin().await?;
            let name = Cell::from(id.0);
            let stored = match tenant {
                None => rows(&mut tx, OPERATION, std::slice::from_ref(&name)).await?,
                Some(tenant) => {
                    rows(&mut tx, OPERATION_OF, &[name.clone(), tenant.0.as_str().into()]).await?
                }
            };
            let events = match stored.is_empty() {
                true => Vec::new(),
                false => rows(&mut tx, history::EVENTS, &[name]).await?,
            };
            tx.commit().await?;
            Ok::<_, sqlx::Error>((stored, events))
        };
        let (stored, events) = read.await.map_err(to_unavailable)?;
        let Some(stored) = stored.first() else { return Ok(None) };
        let subject = Subject::Operation(id);
        self.damaged.settle(subject, operation_as_made(id, stored, &events)).map(Some)
    }

    /// The key, if its row is what the events of the operations that changed it make it.
    pub(super) async fn key_checked(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let to_unavailable = |error| failed(format_args!("key `{id}` could not be read"), &error);
        let read = async {
            let mut tx = self.database.reader().begin().await?;
            let stored = rows(&mut tx, KEY, &[Cell::from(id.0)]).await?;
            let changes = rows(&mut tx, CHANGES, &[Cell::from(id.to_string().as_str())]).await?;
            tx.commit().await?;
            Ok::<_, sqlx::Error>((stored, changes))
        };
        let (stored, changes) = read.await.map_err(to_unavailable)?;
        let stored = stored.first();
        if stored.is_none() && changes.is_empty() {
            return Ok(None);
        }
        self.damaged.settle(Subject::Key(id), key_as_made(id, stored, &changes)).map(Some)
    }
}

/// The operation that the events make, if the row says the same; else the first thing that is wrong.
fn operation_as_made(id: OperationId, stored: &Row, events: &[Row]) -> Result<Record, Finding> {
    let mut found = Vec::new();
    let mut tell = |finding| found.push(finding);
    let told = history::told(&id.to_string(), events, &mut tell);
    let record = as_made(stored, &told, &mut tell);
    match (found.into_iter().next(), record) {
        (None, Some(record)) => Ok(record),
        (Some(finding), _) => Err(finding),
        (None, None) => Err(nothing_makes("operations", stored.named(&["operation_id"]))),
    }
}

fn as_made(stored: &Row, told: &Replayed, found: &mut history::Found<'_>) -> Option<Record> {
    let History { commit, record_root } = told.history.as_ref()?;
    let expected = operation_row(commit, 0, *record_root).ok()?;
    let differing = stored.differences(&operation_columns(&expected));
    if !differing.is_empty() {
        let what = format!("{} not as events make it", differing.join(", "));
        finding(found, "operations", stored.named(&["operation_id"]), what);
    }
    let ledger_root = stored.hash("ledger_root")?;
    Some(Record { operation: commit.operation.clone(), record_root: *record_root, ledger_root })
}

/// The key that the events make, if the row says the same; else the first thing that is wrong.
fn key_as_made(id: KeyId, stored: Option<&Row>, changes: &[Row]) -> Result<CustodyKey, Finding> {
    let mut found = Vec::new();
    let made = folded(changes, &mut |finding| found.push(finding)).remove(&id);
    if let Some(finding) = found.into_iter().next() {
        return Err(finding);
    }
    let name = format!("key_id {id}");
    let Some(stored) = stored else { return Err(wrong("custody_keys", name, "missing: events make it")) };
    let Some(key) = made else { return Err(nothing_makes("custody_keys", name)) };
    let expected = key_row(&KeyChange { key: key.clone(), revision_before: None });
    let expected = expected.map_err(|error| wrong("custody_keys", name.clone(), error.detail))?;
    let differing = stored.differences(&key_columns(&expected));
    if differing.is_empty() {
        return Ok(key);
    }
    Err(wrong("custody_keys", name, format!("{} not as events make it", differing.join(", "))))
}

/// The keys that these events make, each operation's own chain being sound and whole.
fn folded(changes: &[Row], found: &mut history::Found<'_>) -> BTreeMap<KeyId, CustodyKey> {
    // By their places in the log.
    let mut moves = BTreeMap::new();
    for rows in changes.chunk_by(|one, next| one.cell("operation_id") == next.cell("operation_id")) {
        let Some(first) = rows.first() else { continue };
        let id = first.cell("operation_id").to_string();
        let told = history::told(&id, rows, found);
        let Some(History { commit, record_root }) = told.history else { continue };
        if first.integer("revision") != Some(told.seq) || first.hash("record_root") != Some(record_root) {
            finding(found, "operations", format!("operation_id {id}"), "its row is not of these events");
        }
        let operation_id = commit.operation.id.0;
        let events = commit.events.into_iter().map(|event| (operation_id, event));
        moves.extend(told.ledger_indexes.into_iter().zip(events));
    }
    let mut fold = KeyFold::default();
    for (id, event) in moves.into_values() {
        // After its execution an operation changes no key.
        let operation = fold.open(id).cloned().or_else(|| replay(std::slice::from_ref(&event)));
        if let Some(operation) = operation {
            fold.apply(operation, &event);
        }
    }
    fold.keys
}

fn nothing_makes(table: &str, row: String) -> Finding {
    wrong(table, row, "no events make it")
}

fn wrong(table: &str, row: String, what: impl Into<String>) -> Finding {
    Finding { table: table.to_owned(), row, what: what.into() }
}
