//! Checks custody keys: applies every event that may change one, in the order of the log, and compares the result.

use super::check::{Check, PAGE};
use super::snapshot::{Snapshot, Stop};
use crate::record::decode::body;
use crate::record::encode::key_columns;
use crate::record::history::KeyFold;
use crate::sql::row::{Cell, Hashes, Row, blob, blob_or_first};
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Change, Event, Operation, replay};
use std::collections::BTreeMap;

const FIRST: &str = "SELECT body FROM events WHERE operation_id = $1 AND seq = 1";
const KEYS: &str = "SELECT * FROM custody_keys WHERE key_id > $1 ORDER BY key_id LIMIT $2";
const KEY: &str = "SELECT * FROM custody_keys WHERE key_id = $1";
const EVENTS_PER_READ: usize = 256;

impl Check<'_> {
    pub(super) async fn keys(&mut self, ledger_indexes: &[i64]) -> Result<(), Stop> {
        let mut fold = KeyFold::default();
        for indexes in ledger_indexes.chunks(EVENTS_PER_READ) {
            let listed: Vec<_> = indexes.iter().map(ToString::to_string).collect();
            let listed = format!("[{}]", listed.join(","));
            let sql = self.snapshot.statements().events_at;
            for row in self.rows(sql, &[Cell::from(listed.as_str())]).await? {
                self.fold(&row, &mut fold).await?;
            }
        }
        self.checked.n_keys = fold.keys.len() as u64;
        self.compare_keys(fold.keys).await
    }

    async fn fold(&mut self, row: &Row, fold: &mut KeyFold) -> Result<(), Stop> {
        // The check of its operation has reported an event that cannot be read.
        let Some((event, id)) = body(row).zip(row.hash("operation_id")) else { return Ok(()) };
        let Some(operation) = self.submitted(id, &event, fold).await? else { return Ok(()) };
        fold.apply(operation, &event);
        Ok(())
    }

    /// The operation of an event, as submitted.
    async fn submitted(
        &mut self,
        id: Hex32,
        event: &Event,
        fold: &KeyFold,
    ) -> Result<Option<Operation>, Stop> {
        if let Some(operation) = fold.open(id) {
            return Ok(Some(operation.clone()));
        }
        if matches!(event.change, Change::Submitted(_)) {
            return Ok(replay(std::slice::from_ref(event)));
        }
        self.submission(id).await
    }

    /// The operation right after its first event; `None` if that event cannot be read.
    pub(super) async fn submission(&mut self, id: Hex32) -> Result<Option<Operation>, Stop> {
        let first = self.rows(FIRST, &[blob(id)]).await?;
        Ok(first.first().and_then(body).and_then(|event| replay(&[event])))
    }

    async fn compare_keys(&mut self, mut expected: BTreeMap<KeyId, CustodyKey>) -> Result<(), Stop> {
        let mut after = vec![Cell::Blob(Vec::new())];
        while let Some(stored) = self.page(KEYS, &["key_id"], &mut after).await? {
            for row in &stored {
                match row.hash("key_id").and_then(|id| expected.remove(&KeyId(id))) {
                    None => self.finding("custody_keys", row.named(&["key_id"]), "no events produce it"),
                    Some(key) => self.compare_key(row, &key),
                }
            }
        }
        for id in expected.into_keys() {
            self.finding("custody_keys", format!("key_id {id}"), "missing, but events produce it");
        }
        Ok(())
    }

    fn compare_key(&mut self, row: &Row, key: &CustodyKey) {
        match key_columns(key) {
            Ok(expected) => self.differs("custody_keys", row, &["key_id"], &expected, &[]),
            Err(error) => self.finding("custody_keys", row.named(&["key_id"]), error.detail),
        }
    }
}

/// A page of keys as stored, and the `after` of the next page.
pub(super) async fn stored(
    snapshot: &mut Snapshot,
    after: Option<KeyId>,
) -> Result<(Vec<CustodyKey>, Option<KeyId>), Stop> {
    let rows = snapshot.rows(KEYS, &[blob_or_first(after.map(|id| id.0)), PAGE.into()]).await?;
    let last = rows.last().filter(|_| i64::try_from(rows.len()) == Ok(PAGE));
    let last = last.and_then(|row| row.hash("key_id")).map(KeyId);
    Ok((rows.iter().filter_map(body).collect(), last))
}

pub(super) async fn stored_one(snapshot: &mut Snapshot, id: KeyId) -> Result<Option<CustodyKey>, Stop> {
    let rows = snapshot.rows(KEY, &[blob(id.0)]).await?;
    Ok(rows.first().and_then(body))
}
