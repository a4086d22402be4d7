//! Checks the file itself, its schema, and foreign keys.

use super::{Cell, Check, Stop};
use crate::sqlite::snapshot::{migrations, schema_expected};
use gateway_sqlite::schema::differences;

const STRAY_COUNTERS: &str = "SELECT rowid, name FROM sqlite_sequence AS counter
    WHERE name IS NULL OR name NOT IN ('policy_decisions', 'policy_previews', 'policy_activations')
    OR rowid > (SELECT min(rowid) FROM sqlite_sequence AS first WHERE first.name = counter.name)";
const MIGRATIONS: &str = "SELECT * FROM _sqlx_migrations ORDER BY version";

impl Check<'_> {
    pub(super) async fn file(&mut self) -> Result<(), Stop> {
        for row in self.rows("PRAGMA integrity_check", &[]).await? {
            let problem = row.text("integrity_check").unwrap_or("unknown problem").to_owned();
            if problem != "ok" {
                self.finding("database", "", format!("SQLite's integrity check: {problem}"));
            }
        }
        for row in self.rows("PRAGMA foreign_key_check", &[]).await? {
            let name = row.integer("rowid").map(|rowid| format!("rowid {rowid}")).unwrap_or_default();
            let parent = row.text("parent").unwrap_or_default();
            let what = format!("refers to a row of `{parent}` that does not exist");
            self.finding(row.text("table").unwrap_or_default(), name, what);
        }
        self.schema().await?;
        self.counters().await?;
        self.migrations().await
    }

    /// Reports counters of other tables, and duplicates. Each of our own is compared with its table elsewhere.
    async fn counters(&mut self) -> Result<(), Stop> {
        for row in self.rows(STRAY_COUNTERS, &[]).await? {
            self.finding(
                "sqlite_sequence",
                row.named(&["rowid", "name"]),
                "counts another table, or one of ours twice",
            );
        }
        Ok(())
    }

    /// Compares tables, indexes, triggers and views with those that the migrations create: without a constraint or trigger,
    /// other programs could write rows that the gateway never would.
    async fn schema(&mut self) -> Result<(), Stop> {
        let stored = self.snapshot.schema().await?;
        for (object, what) in differences(stored, schema_expected().await?) {
            self.finding("sqlite_schema", object, what);
        }
        Ok(())
    }

    /// Checks the two remaining columns that are known in advance: opening the database compared numbers and checksums, and
    /// the times are the migrator's own.
    async fn migrations(&mut self) -> Result<(), Stop> {
        for (row, name) in self.rows(MIGRATIONS, &[]).await?.iter().zip(migrations()) {
            for (column, expected) in [("description", Cell::from(name)), ("success", Cell::from(true))] {
                if *row.cell(column) != expected {
                    let what = format!("`{column}` is not what the migrator writes");
                    self.finding("_sqlx_migrations", row.named(&["version"]), what);
                }
            }
        }
        Ok(())
    }
}
