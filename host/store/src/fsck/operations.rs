//! Checks the events of each operation, and the rows that are derived from them alone.

use super::check::Check;
use super::snapshot::Stop;
use crate::record::encode::{Spending, listed_keys, operation_columns, spending};
use crate::record::history::{self, CHECKED_ELSEWHERE, Chain, EVENTS, History};
use crate::sql::row::{Cell, Row, blob, instant};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::Change;

/// Ids of operations that have a row in any of the three tables.
const IDS: &str = "SELECT operation_id FROM (
        SELECT operation_id FROM operations WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS stored
    UNION SELECT operation_id FROM (
        SELECT DISTINCT operation_id FROM events WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS logged
    UNION SELECT operation_id FROM (
        SELECT operation_id FROM spending WHERE operation_id > $1 ORDER BY operation_id LIMIT $2) AS spent
    ORDER BY operation_id LIMIT $2";
const OPERATION: &str = "SELECT * FROM operations WHERE operation_id = $1";
const SPENDING: &str = "SELECT * FROM spending WHERE operation_id = $1";
const LISTED: &str = "SELECT * FROM key_operations WHERE key_id = $1 AND ledger_index = $2";

impl Check<'_> {
    /// Checks all operations. Returns the indexes in the log of the events that may change a key, ascending.
    pub(super) async fn operations(&mut self) -> Result<Vec<i64>, Stop> {
        let mut key_events = Vec::new();
        let mut after = vec![Cell::Blob(Vec::new())];
        while let Some(ids) = self.page(IDS, &["operation_id"], &mut after).await? {
            if let [Cell::Blob(id)] = after.as_slice()
                && let Some((start, _)) = id.split_first_chunk()
            {
                self.passed(0, u64::from(u16::from_be_bytes(*start)));
            }
            for id in &ids {
                self.operation(id.cell("operation_id"), &mut key_events).await?;
            }
        }
        key_events.sort_unstable();
        Ok(key_events)
    }

    async fn operation(&mut self, id: &Cell, key_events: &mut Vec<i64>) -> Result<(), Stop> {
        self.checked.n_operations = self.checked.n_operations.saturating_add(1);
        let events = self.rows(EVENTS, std::slice::from_ref(id)).await?;
        let chain = history::follow(&id.to_string(), &events, self.findings);
        let stored = self.rows(OPERATION, std::slice::from_ref(id)).await?;
        let name = format!("operation_id {id}");
        match (stored.first(), events.is_empty()) {
            (None, true) => {}
            (None, false) => self.finding("operations", name, "missing, but it has events"),
            (Some(_), true) => self.finding("operations", name, "it has no events"),
            (Some(stored), false) => self.compare_operation(id, stored, &chain),
        }
        if events.is_empty() || chain.history.is_some() {
            self.spending(id, chain.history.as_ref()).await?;
        }
        let Some(history) = &chain.history else { return Ok(()) };
        if history.operation.intent.operation_type() != OperationType::Sign {
            key_events.extend(&chain.ledger_indexes);
        }
        self.listed(id, history, chain.ledger_indexes.first().copied()).await
    }

    fn compare_operation(&mut self, id: &Cell, stored: &Row, chain: &Chain) {
        let revision = stored.integer("revision").unwrap_or_default();
        if revision > chain.last_seq {
            let first = chain.last_seq.saturating_add(1);
            history::report_missing(self.findings, &id.to_string(), first, revision);
        }
        let Some(History { operation, record_root, .. }) = &chain.history else { return };
        match operation_columns(operation, *record_root) {
            Ok(expected) => {
                self.differs("operations", stored, &["operation_id"], &expected, &CHECKED_ELSEWHERE);
            }
            Err(error) => self.finding("operations", stored.named(&["operation_id"]), error.detail),
        }
    }

    async fn spending(&mut self, id: &Cell, history: Option<&History>) -> Result<(), Stop> {
        let stored = self.rows(SPENDING, std::slice::from_ref(id)).await?;
        let name = format!("operation_id {id}");
        let expected = history.map(|history| (history, spending(&history.operation, history.events.iter())));
        match (stored.first(), expected) {
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
        Ok(())
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

const fn is_decision(change: &Change) -> bool {
    matches!(change, Change::DecisionSigned { .. })
}
