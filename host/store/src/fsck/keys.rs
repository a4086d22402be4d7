//! Checks custody keys: applies every event that may change one, in the order of the log, and compares the result.
//!
//! Keys that replaced one another depend on each other, and are rebuilt together: a line. Few lines are in memory at once.

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

/// Events in one statement, and events of which lines are rebuilt at once, unless one line has more.
const EVENTS_PER_READ: usize = 256;

/// The beginning of a key's id. Keys that share it are taken for one line, which does no harm.
type KeyStart = u64;

fn start(id: KeyId) -> KeyStart {
    id.0.as_bytes().first_chunk().map_or(0, |start| u64::from_be_bytes(*start))
}

/// The events that may change a key.
#[derive(Default)]
pub(super) struct KeyEvents {
    /// A key, and the index of an event in the log.
    events: Vec<(KeyStart, i64)>,
    /// Keys, and those that may have replaced them.
    successors: Vec<(KeyStart, KeyStart)>,
}

impl KeyEvents {
    /// Adds the events of an operation, by their indexes in the log.
    pub(super) fn extend(&mut self, operation: &Operation, ledger_indexes: &[i64]) {
        let key = start(operation.key.key_id);
        self.events.extend(ledger_indexes.iter().map(|index| (key, *index)));
        self.successors.extend(operation.successor.as_ref().map(|slot| (key, start(slot.key_id))));
    }

    /// The events, each with its line: those of a line follow each other, in the order of the log.
    fn by_line(self) -> Vec<(KeyStart, i64)> {
        let Self { mut events, successors } = self;
        // A key that is not the first of its line, with one before it.
        let mut before: BTreeMap<KeyStart, KeyStart> = BTreeMap::new();
        let first = |before: &BTreeMap<KeyStart, KeyStart>, mut key| {
            while let Some(earlier) = before.get(&key) {
                key = *earlier;
            }
            key
        };
        for (key, successor) in successors {
            let (one, other) = (first(&before, key), first(&before, successor));
            if one != other {
                before.insert(one.max(other), one.min(other));
            }
        }
        for (key, _) in &mut events {
            *key = first(&before, *key);
        }
        events.sort_unstable();
        events
    }
}

/// How many of the events, of which the first begins a line, are those of whole lines, and enough for a statement.
fn n_of_whole_lines(events: &[(KeyStart, i64)]) -> usize {
    let mut n = 0;
    for line in events.chunk_by(|(one, _), (next, _)| one == next) {
        if n >= EVENTS_PER_READ {
            break;
        }
        n += line.len();
    }
    n
}

impl Check<'_> {
    pub(super) async fn keys(&mut self, key_events: KeyEvents) -> Result<(), Stop> {
        let events = key_events.by_line();
        let mut rest = events.as_slice();
        let mut produced = Vec::new();
        while !rest.is_empty() {
            let (lines, later) = rest.split_at(n_of_whole_lines(rest));
            rest = later;
            let mut indexes: Vec<_> = lines.iter().map(|(_, index)| *index).collect();
            indexes.sort_unstable();
            for (id, key) in self.rebuilt(&indexes).await? {
                self.compare_key(&key).await?;
                produced.push(id);
            }
        }
        self.checked.n_keys = produced.len() as u64;
        produced.sort_unstable();
        self.compare_rows(&produced).await
    }

    /// The keys that these events produce, of which there are all that may change them.
    async fn rebuilt(&mut self, ledger_indexes: &[i64]) -> Result<BTreeMap<KeyId, CustodyKey>, Stop> {
        let mut fold = KeyFold::default();
        for indexes in ledger_indexes.chunks(EVENTS_PER_READ) {
            let listed: Vec<_> = indexes.iter().map(ToString::to_string).collect();
            let listed = format!("[{}]", listed.join(","));
            let sql = self.snapshot.statements().events_at;
            for row in self.rows(sql, &[Cell::from(listed.as_str())]).await? {
                self.fold(&row, &mut fold).await?;
            }
        }
        Ok(fold.keys)
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

    /// Compares a key with its row.
    async fn compare_key(&mut self, key: &CustodyKey) -> Result<(), Stop> {
        let stored = self.rows(KEY, &[blob(key.key_id.0)]).await?;
        let name = format!("key_id {}", key.key_id);
        match (stored.first(), key_columns(key)) {
            (None, _) => self.finding("custody_keys", name, "missing, but events produce it"),
            (Some(row), Ok(expected)) => self.differs("custody_keys", row, &["key_id"], &expected, &[]),
            (Some(_), Err(error)) => self.finding("custody_keys", name, error.detail),
        }
        Ok(())
    }

    /// Reports the rows of other keys than these, which are in order.
    async fn compare_rows(&mut self, produced: &[KeyId]) -> Result<(), Stop> {
        let mut after = vec![Cell::Blob(Vec::new())];
        while let Some(stored) = self.page(KEYS, &["key_id"], &mut after).await? {
            for row in &stored {
                let id = row.hash("key_id").map(KeyId);
                if id.is_none_or(|id| produced.binary_search(&id).is_err()) {
                    self.finding("custody_keys", row.named(&["key_id"]), "no events produce it");
                }
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a line, found by following every pair again and again.
    fn line_of(key: KeyStart, successors: &[(KeyStart, KeyStart)]) -> KeyStart {
        let mut line = vec![key];
        loop {
            let touches = |(one, other): &&(KeyStart, KeyStart)| line.contains(one) != line.contains(other);
            match successors.iter().find(touches) {
                Some((one, other)) => line.extend([*one, *other]),
                None => return line.into_iter().min().unwrap(),
            }
        }
    }

    #[test]
    fn keys_that_replaced_one_another_are_one_line() {
        let mut random = 1_u64;
        let mut below = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        for _ in 0..2_000 {
            let successors: Vec<_> = (0..below(12)).map(|_| (below(20), below(20))).collect();
            let events: Vec<_> = (0..30).map(|index| (below(20), index)).collect();
            let mut expected: Vec<_> =
                events.iter().map(|(key, index)| (line_of(*key, &successors), *index)).collect();
            expected.sort_unstable();
            assert_eq!(KeyEvents { events, successors }.by_line(), expected);
        }
    }

    #[test]
    fn lines_are_read_whole() {
        let lines = |lengths: &[usize]| -> Vec<(KeyStart, i64)> {
            let line = |(key, length): (KeyStart, &usize)| std::iter::repeat_n((key, 0), *length);
            (0..).zip(lengths).flat_map(line).collect()
        };
        for (lengths, expected) in [
            (&[1; 300][..], EVENTS_PER_READ),
            (&[EVENTS_PER_READ - 1, 10, 10], EVENTS_PER_READ + 9),
            (&[3 * EVENTS_PER_READ, 1], 3 * EVENTS_PER_READ),
            (&[2, 2], 4),
        ] {
            assert_eq!(n_of_whole_lines(&lines(lengths)), expected, "{lengths:?}");
        }
    }
}
