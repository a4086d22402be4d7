//! Checks the file itself, its schema, and foreign keys. PostgreSQL checks its pages when it reads them, and foreign keys always.

use super::check::Check;
use super::snapshot::Stop;
use crate::sql::row::Cell;

const STRAY_COUNTERS: &str = "SELECT name FROM row_counters
    WHERE name NOT IN ('policy_decisions', 'policy_previews', 'policy_activations')";
const STRAY_COUNTERS_OF_FILE: &str = "SELECT rowid, name FROM sqlite_sequence AS counter
    WHERE name IS NULL OR name NOT IN ('policy_decisions', 'policy_previews', 'policy_activations')
    OR rowid > (SELECT min(rowid) FROM sqlite_sequence AS first WHERE first.name = counter.name)";
const MIGRATIONS: &str = "SELECT * FROM _sqlx_migrations ORDER BY version";

impl Check<'_> {
    pub(super) async fn file(&mut self) -> Result<(), Stop> {
        if self.snapshot.is_file() {
            self.integrity().await?;
        }
        self.schema().await?;
        self.counters().await?;
        self.migrations().await
    }

    async fn integrity(&mut self) -> Result<(), Stop> {
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
        Ok(())
    }

    /// Reports counters of other tables, and duplicates. Each of our own is compared with its table elsewhere.
    async fn counters(&mut self) -> Result<(), Stop> {
        let (sql, key): (_, &[&str]) = match self.snapshot.is_file() {
            true => (STRAY_COUNTERS_OF_FILE, &["rowid", "name"]),
            false => (STRAY_COUNTERS, &["name"]),
        };
        let table = self.snapshot.statements().counters;
        for row in self.rows(sql, &[]).await? {
            self.finding(table, row.named(key), "counts another table, or one of ours twice");
        }
        Ok(())
    }

    /// Compares tables, indexes, triggers and views with those that the migrations create: without a constraint or trigger,
    /// other programs could write rows that the gateway never would.
    async fn schema(&mut self) -> Result<(), Stop> {
        let table = if self.snapshot.is_file() { "sqlite_schema" } else { "pg_catalog" };
        for (object, what) in self.snapshot.schema_faults().await? {
            self.finding(table, object, what);
        }
        Ok(())
    }

    /// Checks the two remaining columns that are known in advance: opening the database compared numbers and checksums, and
    /// the times are the migrator's own.
    async fn migrations(&mut self) -> Result<(), Stop> {
        for (row, name) in self.rows(MIGRATIONS, &[]).await?.iter().zip(self.snapshot.migrations()) {
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
