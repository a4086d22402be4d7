//! Checks the events of each operation, and the rows that are derived from them alone.

use super::check::Check;
use super::keys::KeyEvents;
use super::snapshot::Stop;
use crate::record::encode::{Spending, listed_keys, operation_columns, paid, spending};
use crate::record::finding::Finding;
use crate::record::history::{self, CHECKED_ELSEWHERE, Chain, EVENTS, History};
use crate::sql::row::{Cell, Columns, Row, blob, instant};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::Change;
use gateway_engine::Unavailable;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::thread;

/// Ids of operations that have a row in any of the four tables.
const IDS: &str = "SELECT operation_id FROM (
        SELECT operation_id FROM operations WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS stored
    UNION SELECT operation_id FROM (
        SELECT DISTINCT operation_id FROM events WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS logged
    UNION SELECT operation_id FROM (
        SELECT operation_id FROM spending WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS spent
    UNION SELECT operation_id FROM (
        SELECT operation_id FROM paid WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS paid_once
    ORDER BY operation_id LIMIT $2";
const OPERATIONS: &str =
    "SELECT * FROM operations WHERE operation_id BETWEEN $1 AND $2 ORDER BY operation_id";
const SPENDING: &str = "SELECT * FROM spending WHERE operation_id BETWEEN $1 AND $2 ORDER BY operation_id";
const PAID: &str = "SELECT * FROM paid WHERE operation_id BETWEEN $1 AND $2 ORDER BY operation_id";
const LISTED: &str = "SELECT * FROM key_operations WHERE key_id = $1 AND ledger_index = $2";

impl Check<'_> {
    /// Checks all operations. Returns the events that may change a key.
    pub(super) async fn operations(&mut self) -> Result<KeyEvents, Stop> {
        let mut key_events = KeyEvents::default();
        let mut after = vec![Cell::Blob(Vec::new())];
        while let Some(ids) = self.page(IDS, &["operation_id"], &mut after).await? {
            if let [Cell::Blob(id)] = after.as_slice()
                && let Some((start, _)) = id.split_first_chunk()
            {
                self.passed(0, u64::from(u16::from_be_bytes(*start)));
            }
            let page = self.page_of(&ids).await?;
            for (stored, rebuilt) in page.iter().zip(in_parallel(&page, Stored::rebuilt)) {
                self.operation(stored, rebuilt, &mut key_events).await?;
            }
        }
        Ok(key_events)
    }

    /// The rows of these operations, whose ids are in order.
    async fn page_of(&mut self, ids: &[Row]) -> Result<Vec<Stored>, Stop> {
        let id = |row: Option<&Row>| row.map_or(Cell::Null, |row| row.cell("operation_id").clone());
        let bounds = [id(ids.first()), id(ids.last())];
        let mut events = self.rows(EVENTS, &bounds).await?.into_iter().peekable();
        let mut operations = self.rows(OPERATIONS, &bounds).await?.into_iter().peekable();
        let mut spending = self.rows(SPENDING, &bounds).await?.into_iter().peekable();
        let mut paid = self.rows(PAID, &bounds).await?.into_iter().peekable();
        let stored = |row: &Row| {
            let id = row.cell("operation_id").clone();
            let is_of = |row: &Row| *row.cell("operation_id") == id;
            let mut of_it = Vec::new();
            while let Some(event) = events.next_if(is_of) {
                of_it.push(event);
            }
            let (operation, spending) = (operations.next_if(is_of), spending.next_if(is_of));
            Stored { events: of_it, operation, spending, paid: paid.next_if(is_of), id }
        };
        Ok(ids.iter().map(stored).collect())
    }

    async fn operation(
        &mut self,
        stored: &Stored,
        rebuilt: Rebuilt,
        key_events: &mut KeyEvents,
    ) -> Result<(), Stop> {
        self.checked.n_operations = self.checked.n_operations.saturating_add(1);
        let Rebuilt { chain, findings, expected } = rebuilt;
        findings.into_iter().for_each(&mut *self.findings);
        let id = &stored.id;
        let name = format!("operation_id {id}");
        match (&stored.operation, stored.events.is_empty()) {
            (None, true) => {}
            (None, false) => self.finding("operations", name, "missing, but it has events"),
            (Some(_), true) => self.finding("operations", name, "it has no events"),
            (Some(row), false) => self.compare_operation(id, row, &chain, expected),
        }
        if stored.events.is_empty() || chain.history.is_some() {
            self.spending(id, stored.spending.as_ref(), chain.history.as_ref());
            self.paid(id, stored.paid.as_ref(), chain.history.as_ref());
        }
        let Some(history) = &chain.history else { return Ok(()) };
        if history.operation.intent.operation_type() != OperationType::Sign {
            key_events.extend(&history.operation, &chain.ledger_indexes);
        }
        self.listed(id, history, chain.ledger_indexes.first().copied()).await
    }

    fn compare_operation(&mut self, id: &Cell, stored: &Row, chain: &Chain, expected: Option<Expected>) {
        let revision = stored.integer("revision").unwrap_or_default();
        if revision > chain.last_seq {
            let first = chain.last_seq.saturating_add(1);
            history::report_missing(self.findings, &id.to_string(), first, revision);
        }
        match expected {
            None => {}
            Some(Ok(expected)) => {
                self.differs("operations", stored, &["operation_id"], &expected, &CHECKED_ELSEWHERE);
            }
            Some(Err(error)) => self.finding("operations", stored.named(&["operation_id"]), error.detail),
        }
    }

    fn spending(&mut self, id: &Cell, stored: Option<&Row>, history: Option<&History>) {
        let name = format!("operation_id {id}");
        let expected = history.map(|history| (history, spending(&history.operation, history.events.iter())));
        match (stored, expected) {
            (Some(stored), Some((_, Some(Spending::Admitted { columns, .. })))) => {
                self.differs("spending", stored, &["operation_id"], &columns, &[]);
            }
            (Some(_), Some((_, None | Some(Spending::Voided)))) => {
                self.finding("spending", name, "its events spend nothing");
            }
            (Some(_), None) => self.finding("spending", name, "its operation has no events"),
            (None, Some((_, Some(Spending::Admitted { at_ms, .. })))) => {
                if !self.dropped.allows(at_ms) {
                    self.finding("spending", name, "missing: its events spend an amount");
                }
            }
            // It may have had a row that was deleted before it failed.
            (None, Some((history, Some(Spending::Voided)))) => {
                let decided = history.events.iter().find(|event| is_decision(&event.change));
                decided.into_iter().for_each(|event| {
                    self.dropped.allows(instant(event.at_ms));
                });
            }
            (None, None | Some((_, None))) => {}
        }
    }

    fn paid(&mut self, id: &Cell, stored: Option<&Row>, history: Option<&History>) {
        let name = format!("operation_id {id}");
        match (stored, history.and_then(|history| paid(&history.operation))) {
            (Some(stored), Some(columns)) => self.differs("paid", stored, &["operation_id"], &columns, &[]),
            (Some(_), None) => self.finding("paid", name, "its events publish no payment"),
            (None, Some(_)) => self.finding("paid", name, "missing: its events publish a payment"),
            (None, None) => {}
        }
    }

    /// Checks that each key of the operation lists it, at the index of its first event.
    async fn listed(&mut self, id: &Cell, history: &History, first: Option<i64>) -> Result<(), Stop> {
        for key in listed_keys(&history.operation) {
            let listed = [blob(key.0), Cell::from(first.unwrap_or_default())];
            let stored = self.rows(LISTED, &listed).await?;
            if stored.first().is_none_or(|row| row.cell("operation_id") != id) {
                let [key, index] = listed;
                let row = format!("key_id {key}, ledger_index {index}");
                self.finding("key_operations", row, format!("missing: operation {id} begins at this index"));
            }
        }
        Ok(())
    }
}

/// What an operation's row must have; an error if it cannot be written.
type Expected = Result<Columns, Unavailable>;

/// The rows of one operation.
struct Stored {
    id: Cell,
    events: Vec<Row>,
    operation: Option<Row>,
    spending: Option<Row>,
    paid: Option<Row>,
}

/// What its events say.
struct Rebuilt {
    chain: Chain,
    findings: Vec<Finding>,
    expected: Option<Expected>,
}

impl Stored {
    fn rebuilt(&self) -> Rebuilt {
        let mut findings = Vec::new();
        let chain =
            history::follow(&self.id.to_string(), &self.events, &mut |finding| findings.push(finding));
        let expected = |history: &History| operation_columns(&history.operation, history.record_root);
        Rebuilt { expected: chain.history.as_ref().map(expected), chain, findings }
    }
}

/// The result of each item, in order. All processors work.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let n_threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let n_each = items.len().div_ceil(n_threads).max(1);
    thread::scope(|scope| {
        let work_on = |chunk: &'_ [T]| chunk.iter().map(&work).collect::<Vec<_>>();
        let started: Vec<_> = items.chunks(n_each).map(|chunk| scope.spawn(move || work_on(chunk))).collect();
        let ended =
            started.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|why| resume_unwind(why)));
        ended.collect()
    })
}

const fn is_decision(change: &Change) -> bool {
    matches!(change, Change::DecisionSigned { .. })
}
