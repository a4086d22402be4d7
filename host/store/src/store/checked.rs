//! Reads operations and keys from disk, and refuses a row that differs from the record rebuilt from its events.
//!
//! Another program may have changed a row, for example while the gateway was stopped, and the gateway must not act on
//! such a row. Records that were checked, or that this process wrote, are cached ([`crate::store::cache`]).

use crate::error::failed;
use crate::record::encode::{key_columns, operation_columns};
use crate::record::finding::{Finding, Report, report};
use crate::record::history::{self, CHECKED_ELSEWHERE, Chain, History, KeyFold};
use crate::sql::connection::Connection as _;
use crate::sql::row::{Cell, Hashes, Row, blob};
use crate::store::Store;
use gateway_domain::ids::{KeyId, OperationId, Tenant};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::replay;
use gateway_engine::ports::{ReadError, Record, Subject};
use std::collections::BTreeMap;
use std::sync::Arc;

const OPERATION: &str = "SELECT * FROM operations WHERE operation_id = $1";
const OPERATION_OF: &str = "SELECT * FROM operations WHERE operation_id = $1 AND tenant = $2";
const KEY: &str = "SELECT * FROM custody_keys WHERE key_id = $1";

/// The finding for a row without events.
const NO_EVENTS: &str = "no events produce it";

impl Store {
    /// The operation, if its row matches its events.
    pub(crate) async fn operation_checked(
        &self,
        id: OperationId,
        tenant: Option<&Tenant>,
    ) -> Result<Option<Record>, ReadError> {
        let to_unavailable = |error| failed(format_args!("operation `{id}` could not be read"), &error);
        let read = async {
            let mut snapshot = self.database.pool().snapshot().await?;
            let name = blob(id.0);
            let stored = match tenant {
                None => snapshot.rows(OPERATION, std::slice::from_ref(&name)).await?,
                Some(tenant) => {
                    snapshot.rows(OPERATION_OF, &[name.clone(), tenant.0.as_str().into()]).await?
                }
            };
            let events = match stored.is_empty() {
                true => Vec::new(),
                false => snapshot.rows(history::EVENTS, &[name.clone(), name]).await?,
            };
            snapshot.end().await?;
            Ok::<_, sqlx::Error>((stored, events))
        };
        let (stored, events) = read.await.map_err(to_unavailable)?;
        let Some(stored) = stored.first() else { return Ok(None) };
        let subject = Subject::Operation(id);
        self.damaged.update(subject, operation_from_events(id, stored, &events)).map(Some)
    }

    /// The key, if its row matches the events of the operations that changed it.
    pub(crate) async fn key_checked(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let to_unavailable = |error| failed(format_args!("key `{id}` could not be read"), &error);
        let read = async {
            let pool = self.database.pool();
            let mut snapshot = pool.snapshot().await?;
            let stored = snapshot.rows(KEY, &[blob(id.0)]).await?;
            let changes = pool.statements().changes;
            let changes = snapshot.rows(changes, &[Cell::from(id.to_string().as_str())]).await?;
            snapshot.end().await?;
            Ok::<_, sqlx::Error>((stored, changes))
        };
        let (stored, changes) = read.await.map_err(to_unavailable)?;
        let stored = stored.first();
        if stored.is_none() && changes.is_empty() {
            return Ok(None);
        }
        self.damaged.update(Subject::Key(id), key_from_events(id, stored, &changes)).map(Some)
    }
}

/// The operation rebuilt from its events, if the row is the same; else the first finding.
fn operation_from_events(id: OperationId, stored: &Row, events: &[Row]) -> Result<Record, Finding> {
    let mut findings = Vec::new();
    let mut found = |finding| findings.push(finding);
    let chain = history::follow(&id.to_string(), events, &mut found);
    let record = rebuilt_record(stored, &chain, &mut found);
    match (findings.into_iter().next(), record) {
        (None, Some(record)) => Ok(record),
        (Some(finding), _) => Err(finding),
        (None, None) => Err(Finding::new("operations", stored.named(&["operation_id"]), NO_EVENTS)),
    }
}

fn rebuilt_record(stored: &Row, chain: &Chain, findings: &mut Report<'_>) -> Option<Record> {
    let History { operation, record_root, .. } = chain.history.as_ref()?;
    let expected = operation_columns(operation, *record_root).ok()?;
    if let Some(columns) = stored.differences(&expected, &CHECKED_ELSEWHERE) {
        let what = format!("{columns} do not match its events");
        report(findings, "operations", stored.named(&["operation_id"]), what);
    }
    let ledger_root = stored.hash("ledger_root")?;
    Some(Record { operation: Arc::new(operation.clone()), record_root: *record_root, ledger_root })
}

/// The key rebuilt from the events, if the row is the same; else the first finding.
fn key_from_events(id: KeyId, stored: Option<&Row>, changes: &[Row]) -> Result<CustodyKey, Finding> {
    let mut findings = Vec::new();
    let rebuilt = rebuilt_keys(changes, &mut |finding| findings.push(finding)).remove(&id);
    if let Some(finding) = findings.into_iter().next() {
        return Err(finding);
    }
    let name = format!("key_id {id}");
    let Some(stored) = stored else {
        return Err(Finding::new("custody_keys", name, "missing, but events produce it"));
    };
    let Some(key) = rebuilt else { return Err(Finding::new("custody_keys", name, NO_EVENTS)) };
    let expected = key_columns(&key);
    let expected = expected.map_err(|error| Finding::new("custody_keys", name.clone(), error.detail))?;
    match stored.differences(&expected, &[]) {
        None => Ok(key),
        Some(columns) => {
            Err(Finding::new("custody_keys", name, format!("{columns} do not match its events")))
        }
    }
}

/// The keys rebuilt from these events, after checking that each operation's chain is sound and complete.
fn rebuilt_keys(changes: &[Row], findings: &mut Report<'_>) -> BTreeMap<KeyId, CustodyKey> {
    // By index in the log.
    let mut events_in_order = BTreeMap::new();
    for rows in changes.chunk_by(|one, next| one.cell("operation_id") == next.cell("operation_id")) {
        let Some(first) = rows.first() else { continue };
        let id = first.cell("operation_id").to_string();
        let chain = history::follow(&id, rows, findings);
        let Some(History { operation, events, record_root }) = chain.history else { continue };
        if first.integer("revision") != Some(chain.last_seq) || first.hash("record_root") != Some(record_root)
        {
            report(findings, "operations", format!("operation_id {id}"), "its row does not match its events");
        }
        let events = events.into_iter().map(|event| (operation.id.0, event));
        events_in_order.extend(chain.ledger_indexes.into_iter().zip(events));
    }
    let mut fold = KeyFold::default();
    for (id, event) in events_in_order.into_values() {
        // `replay` works for the first event of an operation only. A later event without an open operation changes no key.
        let operation = fold.open(id).cloned().or_else(|| replay(std::slice::from_ref(&event)));
        if let Some(operation) = operation {
            fold.apply(operation, &event);
        }
    }
    fold.keys
}
