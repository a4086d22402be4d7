//! Reads decision records on a connection of its own.

use super::Cursor;
use crate::database::{OpenError, Pool};
use crate::record::decode::{self, integer};
use crate::record::encode;
use crate::sql::row::{self, Cell, Hashes, Row, blob};
use crate::store::{policies, read};
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::{Event, evaluations};
use gateway_domain::policy::DecisionId;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Asked, DecisionPosition, EventId, ReadError, RecordedDecision, StoredBundle};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Events read in one statement.
const EVENTS_PER_PAGE: i64 = 512;

const EVENTS_AFTER: &str = "SELECT ledger_index, operation_id, seq, event_hash FROM events
    WHERE ledger_index >= $1 ORDER BY ledger_index LIMIT $2";
const EVENTS_BEFORE: &str = "SELECT ledger_index, operation_id, seq, event_hash FROM events
    WHERE ledger_index < $1 ORDER BY ledger_index DESC LIMIT $2";
const EVENTS_OF: &str = "SELECT ledger_index, operation_id, seq, event_hash FROM events
    WHERE operation_id = $1 ORDER BY ledger_index LIMIT $2";
const CHANGES: &str = "SELECT ledger_index, operation_id, format, body FROM events
    WHERE ledger_index >= $1 ORDER BY ledger_index LIMIT $2";

/// A table of decisions that are in no event.
pub(super) struct List {
    table: &'static str,
    index: &'static str,
    /// The operation that was evaluated, and the idempotency key.
    operation: &'static str,
    position: fn(u64) -> DecisionPosition,
}

pub(super) static REFUSALS: List = List {
    table: "policy_decisions",
    index: "decision_index",
    operation: "operation_id, idempotency_key",
    position: DecisionPosition::Refusal,
};
pub(super) static PREVIEWS: List = List {
    table: "policy_previews",
    index: "preview_index",
    operation: "NULL AS operation_id, '' AS idempotency_key",
    position: DecisionPosition::Preview,
};

const AFTER: &str = "ASC";
const LATEST: &str = "DESC";

const EVENT: &str = "SELECT event_hash AS hash FROM events WHERE ledger_index = $1";
/// The row, or, if it was dropped, a later one or the note of that, without a hash.
const REFUSAL: &str = "SELECT row_hash AS hash FROM policy_decisions WHERE decision_index = $1
    UNION ALL SELECT NULL FROM rows_dropped WHERE name = 'policy_decisions' AND through >= $1";
const PREVIEW: &str = "SELECT row_hash AS hash FROM policy_previews WHERE preview_index = $1
    UNION ALL SELECT NULL FROM policy_previews WHERE preview_index > $1
        AND NOT EXISTS (SELECT 1 FROM policy_previews AS older WHERE older.preview_index <= $1)";

/// An event of an operation, at its place in the log of all events. Its hash is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastEvent {
    /// Its index in the log, from 0.
    pub ledger_index: u64,
    /// The operation.
    pub operation_id: OperationId,
    /// The event.
    pub event: Event,
}

/// A read-only view of a store's decisions, for tools that run beside the gateway.
#[derive(Debug)]
pub struct Decisions {
    pool: Pool,
}

impl Decisions {
    /// Opens the database at `location`, in the form that [`Store::open`](crate::Store::open) takes. A gateway may have it
    /// open.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(Self { pool: Pool::open(location).await? })
    }

    /// The decisions of an open store.
    pub(super) fn of(pool: &Pool) -> Self {
        Self { pool: pool.clone() }
    }

    /// The decision of this name.
    pub async fn find(&self, id: DecisionId) -> Result<Option<RecordedDecision>, Unavailable> {
        match id {
            DecisionId::Event { operation_id, .. } => {
                let of_operation = self.of_operation(operation_id).await?;
                Ok(of_operation.into_iter().find(|decision| decision.id() == id))
            }
            DecisionId::Refusal(index) => self.refusal(index).await,
            DecisionId::Preview(index) => self.preview(index).await,
        }
    }

    /// The part of the cursor that names no record of this store, if there is one. Of a refusal or preview that was dropped since, nothing
    /// can be said.
    pub async fn unknown(&self, cursor: Cursor) -> Result<Option<EventId>, Unavailable> {
        let parts = [(EVENT, cursor.event), (REFUSAL, cursor.refusal), (PREVIEW, cursor.preview)];
        for (sql, part) in parts {
            let Some(id) = part else { continue };
            let rows = self
                .pool
                .rows(sql, &[row::integer(id.index).into()], "a policy decision could not be read")
                .await?;
            let is_known = rows.first().is_some_and(|row| match row.hash("hash") {
                Some(hash) => EventId::new(id.index, hash) == id,
                None => matches!(row.cell("hash"), Cell::Null),
            });
            if !is_known {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// At most `n_max` decisions after the cursor: those in events, then refusals, then previews, each oldest first.
    ///
    /// # Errors
    /// [`Unavailable`] if the store does not answer, or a record cannot be read.
    pub async fn page(&self, after: Cursor, n_max: usize) -> Result<Vec<RecordedDecision>, Unavailable> {
        let mut found =
            self.evaluations_after(after.event.map_or(0, |last| last.index.saturating_add(1)), n_max).await?;
        let n_left = n_max.saturating_sub(found.len());
        found.extend(self.listed(&REFUSALS, AFTER, index(after.refusal), n_left).await?);
        let n_left = n_max.saturating_sub(found.len());
        found.extend(self.listed(&PREVIEWS, AFTER, index(after.preview), n_left).await?);
        Ok(found)
    }

    /// At most `n_max` of the latest decisions by time, oldest first.
    pub async fn latest(&self, n_max: usize) -> Result<Vec<RecordedDecision>, Unavailable> {
        let mut found = self.evaluations_latest(n_max).await?;
        found.extend(self.listed(&REFUSALS, LATEST, 0, n_max).await?);
        found.extend(self.listed(&PREVIEWS, LATEST, 0, n_max).await?);
        found.sort_by_key(|decision| (decision.at_ms, decision.position));
        Ok(found.split_off(found.len().saturating_sub(n_max)))
    }

    /// A page of the events of all operations from an index of the log on, in the order of the log; empty at its end.
    pub async fn events(&self, from: u64) -> Result<Vec<PastEvent>, Unavailable> {
        let rows = self.event_rows(CHANGES, row::integer(from)).await?;
        let past = |row: &Row| {
            let ledger_index = integer("an event", row, "ledger_index")?.unsigned_abs();
            let operation_id = decode::operation_id(row)?;
            Ok(PastEvent { ledger_index, operation_id, event: decode::parsed("an event", row, "body")? })
        };
        rows.iter().map(past).collect()
    }

    /// The decisions in an operation's events, oldest first; empty if the operation does not exist.
    pub async fn of_operation(&self, id: OperationId) -> Result<Vec<RecordedDecision>, Unavailable> {
        let bound = [blob(id.0), i64::MAX.into()];
        self.evaluations(self.pool.rows(EVENTS_OF, &bound, "events could not be read").await?).await
    }

    /// One refusal or fault.
    pub async fn refusal(&self, index: u64) -> Result<Option<RecordedDecision>, Unavailable> {
        self.at(&REFUSALS, index).await
    }

    /// One preview, if it has not been dropped.
    pub async fn preview(&self, index: u64) -> Result<Option<RecordedDecision>, Unavailable> {
        self.at(&PREVIEWS, index).await
    }

    /// The files of a bundle that was active once. They are not verified.
    pub async fn bundle(&self, hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
        policies::bundle(&self.pool, hash).await
    }

    /// Closes the connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn evaluations_after(
        &self,
        n_events: u64,
        n_max: usize,
    ) -> Result<Vec<RecordedDecision>, Unavailable> {
        let mut from = row::integer(n_events);
        let mut found = Vec::new();
        while found.len() < n_max {
            let events = self.event_rows(EVENTS_AFTER, from).await?;
            let Some(last) = events.last() else { break };
            from = integer("an event", last, "ledger_index")?.saturating_add(1);
            found.extend(self.evaluations(events).await?);
        }
        found.truncate(n_max);
        Ok(found)
    }

    /// Newest first.
    async fn evaluations_latest(&self, n_max: usize) -> Result<Vec<RecordedDecision>, Unavailable> {
        let mut before = i64::MAX;
        let mut found = Vec::new();
        while found.len() < n_max {
            let events = self.events_before(before, EVENTS_PER_PAGE).await?;
            let Some(last) = events.last() else { break };
            before = integer("an event", last, "ledger_index")?;
            found.extend(self.evaluations(events).await?);
        }
        found.truncate(n_max);
        Ok(found)
    }

    /// Rows with the columns `ledger_index`, `operation_id`, `seq` and `event_hash`.
    async fn event_rows(&self, sql: &str, bound: i64) -> Result<Vec<Row>, Unavailable> {
        self.pool.rows(sql, &[bound.into(), EVENTS_PER_PAGE.into()], "events could not be read").await
    }

    /// As [`Self::events`], those before an index of the log, newest first.
    pub(super) async fn events_before(&self, before: i64, n_max: i64) -> Result<Vec<Row>, Unavailable> {
        self.rows(EVENTS_BEFORE, &[before.into(), n_max.into()]).await
    }

    pub(super) async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, Unavailable> {
        self.pool.rows(sql, bound, "policy decisions could not be read").await
    }

    /// The evaluations in these events, in the same order. The input of an evaluation is reconstructed from the
    /// operation's earlier events, so all events of each operation are read.
    pub(super) async fn evaluations(&self, events: Vec<Row>) -> Result<Vec<RecordedDecision>, Unavailable> {
        let mut operations: BTreeMap<OperationId, BTreeMap<u64, RecordedDecision>> = BTreeMap::new();
        let mut found = Vec::new();
        for event in events {
            let id = decode::operation_id(&event)?;
            let of_operation = match operations.entry(id) {
                Entry::Occupied(read) => read.into_mut(),
                Entry::Vacant(unread) => unread.insert(self.operation(id).await?),
            };
            let seq = integer("an event", &event, "seq")?.unsigned_abs();
            let ledger_index = integer("an event", &event, "ledger_index")?.unsigned_abs();
            let hash = decode::hash("an event", &event, "event_hash")?;
            let evaluation = of_operation.remove(&seq);
            let position = DecisionPosition::Event { ledger_index, seq };
            found.extend(evaluation.map(|evaluation| RecordedDecision { position, hash, ..evaluation }));
        }
        Ok(found)
    }

    /// The evaluations of an operation by `seq`, with a `ledger_index` and a hash of 0, which the caller replaces.
    async fn operation(&self, id: OperationId) -> Result<BTreeMap<u64, RecordedDecision>, Unavailable> {
        let hashed = read::events(&self.pool, id).await.map_err(ReadError::into_unavailable)?;
        let n_intact = n_intact(&hashed);
        let events: Vec<Event> = hashed.into_iter().map(|chained| chained.event).collect();
        let recorded = evaluations(&events).into_iter().map(|evaluation| {
            let recorded = RecordedDecision {
                position: DecisionPosition::Event { ledger_index: 0, seq: evaluation.seq },
                operation_id: Some(id),
                asked: Asked::default(),
                at_ms: evaluation.at_ms,
                input: evaluation.input,
                outcome: evaluation.outcome,
                hash: Hex32::ZERO,
                is_intact: evaluation.seq <= n_intact,
            };
            (evaluation.seq, recorded)
        });
        Ok(recorded.collect())
    }

    /// The decision at this index of a list.
    async fn at(&self, list: &List, index: u64) -> Result<Option<RecordedDecision>, Unavailable> {
        let found = self.listed(list, AFTER, index.saturating_sub(1), 1).await?;
        Ok(found.into_iter().find(|decision| decision.position == (list.position)(index)))
    }

    /// At most `n_max` decisions of a list, those from the end or the beginning that lie behind `after`.
    async fn listed(
        &self,
        list: &List,
        direction: &str,
        after: u64,
        n_max: usize,
    ) -> Result<Vec<RecordedDecision>, Unavailable> {
        let condition = format!("{index} > $1 ORDER BY {index} {direction} LIMIT $2", index = list.index);
        let bound = [row::integer(after).into(), i64::try_from(n_max).unwrap_or(i64::MAX).into()];
        self.selected(list, &condition, &bound).await
    }

    /// At most `n_max` decisions of a list before an index, newest first, that have these values in these columns.
    pub(super) async fn listed_before(
        &self,
        list: &List,
        columns: &[(&str, Cell)],
        before: u64,
        n_max: usize,
    ) -> Result<Vec<RecordedDecision>, Unavailable> {
        let mut bound = vec![row::integer(before).into(), i64::try_from(n_max).unwrap_or(i64::MAX).into()];
        let mut condition = format!("{} < $1", list.index);
        for (column, cell) in columns {
            bound.push(cell.clone());
            condition += &format!(" AND {column} = ${}", bound.len());
        }
        condition += &format!(" ORDER BY {} DESC LIMIT $2", list.index);
        self.selected(list, &condition, &bound).await
    }

    async fn selected(
        &self,
        List { table, index, operation, position }: &List,
        condition: &str,
        bound: &[Cell],
    ) -> Result<Vec<RecordedDecision>, Unavailable> {
        let sql = format!(
            "SELECT {index} AS place, at_ms, {operation}, request_id, format, row_hash, input, outcome
             FROM {table} WHERE {condition}"
        );
        let rows = self.rows(&sql, bound).await?;
        rows.iter().map(|row| decoded(*position, row)).collect()
    }
}

/// The decision in a row with the columns that are selected above.
fn decoded(position: fn(u64) -> DecisionPosition, row: &Row) -> Result<RecordedDecision, Unavailable> {
    let index = integer("a policy decision", row, "place")?;
    let position = position(index.unsigned_abs());
    let what = match position {
        DecisionPosition::Event { .. } | DecisionPosition::Refusal(_) => format!("policy decision {index}"),
        DecisionPosition::Preview(_) => format!("policy preview {index}"),
    };
    let operation_id = match row.cell("operation_id") {
        Cell::Null => None,
        Cell::Integer(_) | Cell::Real | Cell::Text(_) | Cell::Blob(_) => Some(decode::operation_id(row)?),
    };
    let at_ms = integer(&what, row, "at_ms")?;
    let (input, outcome) = (decode::text(&what, row, "input")?, decode::text(&what, row, "outcome")?);
    let asked = decode::asked(row);
    let expected = encode::row_hash(index, encode::contents(at_ms, operation_id, &asked, input, outcome));
    let hash = decode::hash(&what, row, "row_hash")?;
    Ok(RecordedDecision {
        position,
        operation_id,
        asked,
        at_ms: EpochMs(at_ms.unsigned_abs()),
        hash,
        is_intact: hash == expected,
        input: decode::parsed(&what, row, "input")?,
        outcome: decode::parsed(&what, row, "outcome")?,
    })
}

/// The index of the last record read; 0 for none.
fn index(last: Option<EventId>) -> u64 {
    last.map_or(0, |last| last.index)
}

/// The number of events, from the first on, that match their hashes.
fn n_intact(events: &[ChainedEvent]) -> u64 {
    let mut previous = Hex32::ZERO;
    let intact = events.iter().take_while(|event| {
        let follows = event.follows(previous);
        previous = event.hash;
        follows
    });
    intact.count() as u64
}
