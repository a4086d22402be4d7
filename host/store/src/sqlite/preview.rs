//! Writes previews: one SQL text, which takes one round trip to SQLite's thread.

use crate::record::encode::{EvaluationRow, FORMAT, row_hash};
use crate::record::frontier::LogFrontier;
use crate::sqlite::next_index;
use gateway_sqlite::Job;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct PreviewJob {
    // INVARIANT: never empty; `Previews::next` puts at least one row in.
    pub(super) rows: Vec<EvaluationRow>,
    pub(super) n_kept: u32,
    pub(super) n_statements: Arc<AtomicU64>,
}

impl Job for PreviewJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let first = next_index(&mut *conn, "policy_previews").await?;
        let n_rows = i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        let mut script: QueryBuilder<Sqlite> = QueryBuilder::new(
            "INSERT INTO policy_previews (preview_index, at_ms, format, row_hash, input, outcome) ",
        );
        script.push_values((first..).zip(&self.rows), |mut values, (index, row)| {
            values.push_bind(index).push_bind(row.at_ms).push_bind(FORMAT);
            values.push_bind(row_hash(index, row.contents).as_bytes().to_vec());
            values.push_bind(row.input.as_str()).push_bind(row.outcome.as_str());
        });
        script.push(";\n");
        let dropped = first.saturating_add(n_rows).saturating_sub(1).saturating_sub(i64::from(self.n_kept));
        if dropped > 0 {
            script.push("DELETE FROM policy_previews WHERE preview_index <= ").push_bind(dropped);
            script
                .push(";\nINSERT INTO policy_previews_dropped (id, through_index) VALUES (1, ")
                .push_bind(dropped);
            script.push(
                ") ON CONFLICT (id) DO UPDATE SET through_index = max(through_index, excluded.through_index);\n",
            );
        }
        script.build().execute(conn).await?;
        self.n_statements.fetch_add(if dropped > 0 { 4 } else { 2 }, Ordering::Relaxed);
        Ok(())
    }
}
