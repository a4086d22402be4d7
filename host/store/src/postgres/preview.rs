//! Writes previews, and deletes the oldest ones.

use crate::postgres::decision::next_index;
use crate::postgres::job::Job;
use crate::record::encode::{EvaluationRow, FORMAT, row_hash};
use crate::record::frontier::LogFrontier;
use sqlx::PgConnection;

const INSERT: &str = "WITH written AS (
        INSERT INTO policy_previews (preview_index, at_ms, format, row_hash, input, outcome)
        SELECT $1 + n - 1, at_ms, $2, row_hash, input, outcome
        FROM unnest($3, $4, $5, $6) WITH ORDINALITY AS added (at_ms, row_hash, input, outcome, n))
    INSERT INTO row_counters (name, seq) VALUES ('policy_previews', $7)
    ON CONFLICT (name) DO UPDATE SET seq = excluded.seq";

/// A statement of its own, since the rows to delete may be among those that were just inserted.
const DROP: &str = "WITH dropped AS (DELETE FROM policy_previews WHERE preview_index <= $1)
    INSERT INTO policy_previews_dropped (id, through_index) VALUES (1, $1)
    ON CONFLICT (id) DO UPDATE
    SET through_index = greatest(policy_previews_dropped.through_index, excluded.through_index)";

pub(super) struct PreviewJob {
    // INVARIANT: never empty; `Previews::next` puts at least one row in.
    pub(super) rows: Vec<EvaluationRow>,
    pub(super) n_kept: u32,
}

impl Job for PreviewJob {
    type Output = ();

    async fn apply(&self, conn: &mut PgConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let first = next_index(&mut *conn, "policy_previews").await?;
        let last = first.saturating_add(i64::try_from(self.rows.len()).unwrap_or(i64::MAX)).saturating_sub(1);
        let hashes = (first..).zip(&self.rows).map(|(index, row)| row_hash(index, row.contents));
        let hashes: Vec<Vec<u8>> = hashes.map(|hash| hash.as_bytes().to_vec()).collect();
        let insert = sqlx::query(INSERT).bind(first).bind(FORMAT);
        let insert = insert.bind(self.rows.iter().map(|row| row.at_ms).collect::<Vec<_>>()).bind(hashes);
        let insert = insert.bind(self.rows.iter().map(|row| row.input.as_str()).collect::<Vec<_>>());
        let insert = insert.bind(self.rows.iter().map(|row| row.outcome.as_str()).collect::<Vec<_>>());
        insert.bind(last).execute(&mut *conn).await?;
        let dropped = last.saturating_sub(i64::from(self.n_kept));
        if dropped > 0 {
            sqlx::query(DROP).bind(dropped).execute(conn).await?;
        }
        Ok(())
    }
}
