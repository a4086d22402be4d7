//! Operation by operation: its events, and every row that follows from them alone.

use super::{Check, Stop};
use crate::encode::{FORMAT, OperationRow, Spending, SpendingRow, operation_of, operation_row, spending};
use crate::history::{self, EVENTS, History, Replayed};
use crate::row::{Cell, Expected, Row, is};
use gateway_domain::ids::KeyId;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::Change;
use std::collections::BTreeMap;

/// Whatever names an operation, by id: indexes merge them without a sort.
const IDS: &str = "SELECT operation_id FROM operations WHERE operation_id > ?1
    UNION SELECT operation_id FROM events WHERE operation_id > ?1
    UNION SELECT operation_id FROM spending WHERE operation_id > ?1
    ORDER BY operation_id LIMIT ?2";
const OPERATION: &str = "SELECT * FROM operations WHERE operation_id = ?1";
const SPENDING: &str = "SELECT * FROM spending WHERE operation_id = ?1";
const LISTED: &str = "SELECT * FROM key_operations WHERE key_id = ?1 AND ledger_index = ?2";

/// Places in the log of the events that may change a key, ascending: of operations that change keys, and of each key the first
/// signature that was decided.
#[derive(Default)]
pub(super) struct Moves(pub(super) Vec<i64>);

/// The first decision to sign with each key, by its place.
type FirstSigned = BTreeMap<KeyId, i64>;

impl Check<'_> {
    pub(super) async fn operations(&mut self) -> Result<Moves, Stop> {
        let (mut moves, mut signed) = (Moves::default(), FirstSigned::new());
        let mut after = Cell::Blob(Vec::new());
        loop {
            let ids = self.rows(IDS, &[after.clone(), super::PAGE.into()]).await?;
            let Some(last) = ids.last() else { break };
            after = last.cell("operation_id").clone();
            for id in &ids {
                self.operation(id.cell("operation_id"), &mut moves, &mut signed).await?;
            }
        }
        moves.0.extend(signed.into_values());
        moves.0.sort_unstable();
        Ok(moves)
    }

    async fn operation(
        &mut self,
        id: &Cell,
        moves: &mut Moves,
        signed: &mut FirstSigned,
    ) -> Result<(), Stop> {
        self.checked.n_operations = self.checked.n_operations.saturating_add(1);
        let events = self.rows(EVENTS, std::slice::from_ref(id)).await?;
        let told = history::told(&id.to_string(), &events, self.found);
        let stored = self.rows(OPERATION, std::slice::from_ref(id)).await?;
        let name = format!("operation_id {id}");
        match (stored.first(), events.is_empty()) {
            (None, true) => {}
            (None, false) => self.finding("operations", name, "missing: there are events of it"),
            (Some(_), true) => self.finding("operations", name, "there are no events of it"),
            (Some(stored), false) => self.compare_operation(id, stored, &told),
        }
        if events.is_empty() || told.history.is_some() {
            self.spending(id, told.history.as_ref()).await?;
        }
        let Some(history) = &told.history else { return Ok(()) };
        if history.commit.operation.intent.operation_type() != OperationType::Sign {
            moves.0.extend(&told.ledger_indexes);
        } else if let Some(place) = decided_at(history, &told.ledger_indexes) {
            let first = signed.entry(history.commit.operation.key.key_id).or_insert(place);
            *first = place.min(*first);
        }
        self.listed(id, history, told.ledger_indexes.first().copied()).await
    }

    fn compare_operation(&mut self, id: &Cell, stored: &Row, told: &Replayed) {
        let revision = stored.integer("revision").unwrap_or_default();
        if revision > told.seq {
            history::missing(self.found, &id.to_string(), told.seq.saturating_add(1), revision);
        }
        let Some(History { commit, record_root }) = &told.history else { return };
        match operation_row(commit, 0, *record_root) {
            Ok(row) => self.differs("operations", stored, &["operation_id"], &operation_columns(&row)),
            Err(error) => self.finding("operations", stored.named(&["operation_id"]), error.detail),
        }
    }

    /// Tells which columns are not what events make them.
    pub(super) fn differs(&mut self, table: &str, stored: &Row, key: &[&str], expected: &[(&str, Expected)]) {
        let differing = stored.differences(expected);
        if !differing.is_empty() {
            let what = format!("{} not as events make it", differing.join(", "));
            self.finding(table, stored.named(key), what);
        }
    }

    async fn spending(&mut self, id: &Cell, history: Option<&History>) -> Result<(), Stop> {
        let stored = self.rows(SPENDING, std::slice::from_ref(id)).await?;
        let name = format!("operation_id {id}");
        let expected = history.map(|history| (history, spending(&history.commit)));
        match (stored.first(), expected) {
            (Some(stored), Some((history, Some(Spending::Admitted(row))))) => {
                let columns = spending_columns(id, &history.commit.operation.tenant.0, &row);
                self.differs("spending", stored, &["operation_id"], &columns);
            }
            (Some(_), Some((_, None | Some(Spending::Voided)))) => {
                self.finding("spending", name, "its events spend nothing");
            }
            (Some(_), None) => self.finding("spending", name, "there are no events of it"),
            (None, Some((_, Some(Spending::Admitted(_))))) => {
                self.finding("spending", name, "missing: its events spend");
            }
            (None, None | Some((_, None | Some(Spending::Voided)))) => {}
        }
        Ok(())
    }

    /// Each of its keys lists it at its first event.
    async fn listed(&mut self, id: &Cell, history: &History, first: Option<i64>) -> Result<(), Stop> {
        for key in operation_of(&history.commit.operation) {
            let place = [Cell::from(key.0), Cell::from(first.unwrap_or_default())];
            let stored = self.rows(LISTED, &place).await?;
            if stored.first().is_none_or(|row| row.cell("operation_id") != id) {
                let [key, place] = place;
                let row = format!("key_id {key}, ledger_index {place}");
                self.finding("key_operations", row, format!("missing: operation {id} begins there"));
            }
        }
        Ok(())
    }
}

/// Where the decision to sign is in the log.
fn decided_at(history: &History, ledger_indexes: &[i64]) -> Option<i64> {
    let is_decision = |change: &Change| matches!(change, Change::DecisionSigned { .. });
    let at = history.commit.events.iter().position(|event| is_decision(&event.change))?;
    ledger_indexes.get(at).copied()
}

pub(crate) fn operation_columns(row: &OperationRow) -> [(&'static str, Expected); 14] {
    [
        ("operation_id", is(row.id.0)),
        ("tenant", is(row.tenant.as_str())),
        ("family", is(row.family)),
        ("key_id", is(row.key_id.0)),
        ("state", is(row.state)),
        ("owes", is(row.owes)),
        ("awaits_approvals", is(row.awaits_approvals)),
        ("revision", is(row.revision)),
        ("record_root", is(row.record_root)),
        // Follows from all events: `Check::tree`.
        ("ledger_root", Expected::CheckedElsewhere),
        ("created_at_ms", is(row.created_at_ms)),
        ("updated_at_ms", is(row.updated_at_ms)),
        ("format", is(FORMAT)),
        ("body", is(row.body.as_str())),
    ]
}

fn spending_columns(id: &Cell, tenant: &str, row: &SpendingRow) -> [(&'static str, Expected); 7] {
    [
        ("operation_id", Expected::Is(id.clone())),
        ("tenant", is(tenant)),
        ("account", is(row.account.as_str())),
        ("recipient", is(row.recipient.as_str())),
        ("currency", is(row.currency.as_str())),
        ("at_ms", is(row.at_ms)),
        ("amount_minor", is(row.amount_minor)),
    ]
}
