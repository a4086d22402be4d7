//! Writes previews, and deletes the oldest ones.

use crate::change::script::{Script, next_index};
use crate::change::write::Change;
use crate::record::encode::EvaluationRow;
use crate::sql::connection::Connection;

pub(crate) struct PreviewsWrite {
    // INVARIANT: never empty; `Previews::next` puts at least one row in.
    pub(crate) rows: Vec<EvaluationRow>,
    /// How many of the newest stay.
    pub(crate) n_kept: u32,
}

impl Change for PreviewsWrite {
    type Output = ();

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<(), sqlx::Error> {
        let first = next_index(conn, "policy_previews").await?;
        let last = first.saturating_add(i64::try_from(self.rows.len()).unwrap_or(i64::MAX)).saturating_sub(1);
        let mut script = Script::new(conn.statements());
        let rows = (first..).zip(&self.rows).map(|(index, row)| row.at("preview_index", index));
        script.insert_all("policy_previews", rows, " RETURNING preview_index");
        script.count("policy_previews", last);
        script.run(conn).await?;
        let dropped = last.saturating_sub(i64::from(self.n_kept));
        if dropped <= 0 {
            return Ok(());
        }
        // A script of its own, since the rows to delete may be among those that were just inserted.
        let mut script = Script::new(conn.statements());
        let through = script.bind(dropped);
        let set_dropped = format!(
            "INSERT INTO policy_previews_dropped (id, through_index) VALUES (1, {through})
             ON CONFLICT (id) DO UPDATE SET through_index = excluded.through_index
             WHERE policy_previews_dropped.through_index < excluded.through_index RETURNING id"
        );
        script.add(set_dropped);
        script.add(format!("DELETE FROM policy_previews WHERE preview_index <= {through}"));
        script.run(conn).await.map(drop)
    }
}
