//! Checks policy decisions that are not derived from events: each row has a hash of itself, and a counter
//! counts them.

use super::check::Check;
use super::snapshot::Stop;
use crate::record::decode::asked;
use crate::record::encode::{decision, preview};
use crate::sql::row::{Cell, Columns, Hashes, Row};
use gateway_domain::ids::OperationId;
use gateway_domain::policy::{Input, Outcome};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{DecisionRecord, PreviewRecord};

const DECISIONS: &str =
    "SELECT * FROM policy_decisions WHERE decision_index > $1 ORDER BY decision_index LIMIT $2";
const PREVIEWS: &str =
    "SELECT * FROM policy_previews WHERE preview_index > $1 ORDER BY preview_index LIMIT $2";
const DROPPED: &str = "SELECT * FROM policy_previews_dropped ORDER BY id";

/// A table whose rows are numbered without gaps.
struct NumberedTable {
    table: &'static str,
    index: &'static str,
    sql: &'static str,
    /// The expected columns, computed from the row's own instant, input and outcome.
    columns: fn(&Row) -> Option<Columns>,
}

impl Check<'_> {
    pub(super) async fn decisions(&mut self) -> Result<(), Stop> {
        let numbered = NumberedTable {
            table: "policy_decisions",
            index: "decision_index",
            sql: DECISIONS,
            columns: decision_columns,
        };
        self.checked.n_decisions = self.check_numbered(&numbered, self.dropped.refusals).await?;
        Ok(())
    }

    pub(super) async fn previews(&mut self) -> Result<(), Stop> {
        let numbered = NumberedTable {
            table: "policy_previews",
            index: "preview_index",
            sql: PREVIEWS,
            columns: preview_columns,
        };
        let mut dropped = 0;
        for row in self.rows(DROPPED, &[]).await? {
            if row.integer("id") == Some(1) {
                dropped = row.integer("through_index").unwrap_or_default();
            } else {
                self.finding("policy_previews_dropped", row.named(&["id"]), "only row 1 is allowed");
            }
        }
        self.checked.n_previews = self.check_numbered(&numbered, dropped).await?;
        Ok(())
    }

    /// Checks the rows of a table, of which those up to `dropped` were deleted on purpose. Returns their number.
    async fn check_numbered(&mut self, numbered: &NumberedTable, dropped: i64) -> Result<u64, Stop> {
        let NumberedTable { table, index, sql, columns } = *numbered;
        let (mut last, mut after, mut n_rows) = (dropped, vec![Cell::Integer(i64::MIN)], 0_u64);
        while let Some(rows) = self.page(sql, &[index], &mut after).await? {
            n_rows = n_rows.saturating_add(rows.len() as u64);
            for row in &rows {
                let number = row.integer(index).unwrap_or_default();
                if number <= dropped {
                    self.finding(table, row.named(&[index]), format!("rows up to {dropped} were deleted"));
                } else {
                    self.report_missing(table, index, last, number);
                    last = number;
                }
                self.check_columns(table, index, row, columns(row));
            }
        }
        let counted = self.rows(&self.snapshot.statements().counted(), &[Cell::from(table)]).await?;
        let counted = counted.first().and_then(|row| row.integer("seq")).unwrap_or_default();
        self.report_missing(table, index, last, counted.saturating_add(1));
        if counted < last {
            let counters = self.snapshot.statements().counters;
            let what = format!("`{counters}` counts only to {counted}");
            self.finding(table, format!("{index} {last}"), what);
        }
        Ok(n_rows)
    }

    /// Reports the rows between two numbers as missing.
    fn report_missing(&mut self, table: &str, index: &str, before: i64, after: i64) {
        let (first, last) = (before.saturating_add(1), after.saturating_sub(1));
        if first < last {
            self.finding(table, format!("{index} {first} to {last}"), "missing");
        } else if first == last {
            self.finding(table, format!("{index} {first}"), "missing");
        }
    }

    fn check_columns(&mut self, table: &str, index: &str, row: &Row, columns: Option<Columns>) {
        let Some(columns) = columns else {
            self.finding(table, row.named(&[index]), "cannot be read");
            return;
        };
        if let Some(columns) = row.differences(&columns, &[]) {
            self.finding(table, row.named(&[index]), format!("{columns} do not match the rest of the row"));
        }
    }
}

/// The instant, input and outcome of a row.
fn evaluated(row: &Row) -> Option<(EpochMs, Input, Outcome)> {
    let at_ms = u64::try_from(row.integer("at_ms")?).ok()?;
    let input = serde_json::from_str(row.text("input")?).ok()?;
    let outcome = serde_json::from_str(row.text("outcome")?).ok()?;
    Some((EpochMs(at_ms), input, outcome))
}

fn decision_columns(row: &Row) -> Option<Columns> {
    let (at_ms, input, outcome) = evaluated(row)?;
    let operation_id = OperationId(row.hash("operation_id")?);
    let expected =
        decision(&DecisionRecord { at_ms, operation_id, asked: asked(row), input, outcome }).ok()?;
    Some(expected.at("decision_index", row.integer("decision_index")?))
}

fn preview_columns(row: &Row) -> Option<Columns> {
    let (at_ms, input, outcome) = evaluated(row)?;
    let expected = preview(&PreviewRecord { at_ms, asked: asked(row), input, outcome }).ok()?;
    Some(expected.at("preview_index", row.integer("preview_index")?))
}
