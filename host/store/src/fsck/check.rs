//! A check in progress.

use super::snapshot::{Snapshot, Stop};
use crate::record::finding::{Finding, report};
use crate::sql::row::{Cell, Columns, Row};
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;

/// Rows read in one statement.
pub(crate) const PAGE: i64 = 256;

/// The numbers of checked rows, and the head of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rows of `events`.
    pub n_events: u64,
    /// Operations with a row or an event.
    pub n_operations: u64,
    /// Custody keys rebuilt from the events.
    pub n_keys: u64,
    /// Rows of `policy_decisions`.
    pub n_decisions: u64,
    /// Rows of `policy_previews`.
    pub n_previews: u64,
    /// Rows of `policy_activations`.
    pub n_activations: u64,
    /// The head of the log, to compare with a checkpoint kept elsewhere; `None` if leaves are missing.
    pub head: Option<Head>,
}

/// The head of the log of all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of its entries.
    pub n_leaves: u64,
    /// Its root, computed from the leaves.
    pub root: Hex32,
}

/// How far rows were deleted on purpose.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// When the newest deleted payment was decided; `None` if none was deleted.
    pub(super) spending: Option<i64>,
    /// Whether a payment was found that was decided then and has no row.
    pub(super) is_confirmed: bool,
    /// The last deleted refusal, 0 without one.
    pub(super) refusals: i64,
}

impl Dropped {
    /// Whether a payment that was decided at this time may be without a row.
    pub(super) fn allows(&mut self, decided_at_ms: i64) -> bool {
        self.is_confirmed |= self.spending == Some(gateway_spending::end_of_minute(decided_at_ms));
        self.spending.is_some_and(|through| decided_at_ms <= through)
    }
}

/// A check in progress.
pub(super) struct Check<'a> {
    pub(super) snapshot: &'a mut Snapshot,
    pub(super) findings: &'a mut (dyn FnMut(Finding) + Send),
    pub(super) progress: &'a mut (dyn FnMut(u64, u64) + Send),
    pub(super) checked: Checked,
    pub(super) dropped: Dropped,
}

/// The parts of a long pass over a table, of which there are two: over operations, whose ids are evenly distributed, and over the log.
pub(super) const PARTS_OF_PASS: u64 = 1 << 16;

impl Check<'_> {
    pub(super) fn finding(&mut self, table: &str, row: impl Into<String>, what: impl Into<String>) {
        report(self.findings, table, row, what);
    }

    /// Reports how far the first or second pass is.
    pub(super) fn passed(&mut self, n_passes_before: u64, part: u64) {
        let n_done = n_passes_before.saturating_mul(PARTS_OF_PASS).saturating_add(part.min(PARTS_OF_PASS));
        (self.progress)(n_done, PARTS_OF_PASS.saturating_mul(2));
    }

    pub(super) async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, Stop> {
        self.snapshot.rows(sql, bound).await
    }

    /// The next rows of a statement that goes on after a key, whose columns are its first parameters; its last one is the most rows. `None`
    /// at the end.
    pub(super) async fn page(
        &mut self,
        sql: &str,
        key: &[&str],
        after: &mut Vec<Cell>,
    ) -> Result<Option<Vec<Row>>, Stop> {
        let bound = [after.as_slice(), &[PAGE.into()]].concat();
        let rows = self.rows(sql, &bound).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        *after = key.iter().map(|name| last.cell(name).clone()).collect();
        Ok(Some(rows))
    }

    /// Reports the columns that differ from those rebuilt from the events.
    pub(super) fn differs(
        &mut self,
        table: &str,
        stored: &Row,
        key: &[&str],
        expected: &Columns,
        elsewhere: &[&str],
    ) {
        if let Some(columns) = stored.differences(expected, elsewhere) {
            self.finding(table, stored.named(key), format!("{columns} do not match its events"));
        }
    }

    /// The outcome of one part of the check; `None` if damaged pages ended it, which is reported as a finding.
    pub(super) fn ended<T>(
        &mut self,
        table: &str,
        outcome: Result<T, Stop>,
    ) -> Result<Option<T>, Unavailable> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Damaged) => {
                self.finding(table, "", "cannot be read to its end: the file is damaged");
                Ok(None)
            }
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}
