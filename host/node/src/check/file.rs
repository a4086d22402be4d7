//! The check of a whole database file, which a process may be serving with.

use super::page::is_corrupt;
use super::{Checker, Damage, Scope};
use crate::error::NodeError;
use crate::node::{APPLICATION, MIGRATIONS};
use crate::sealing::Sealing;
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::at_rest::Kek;
use gateway_sqlite::{Options, Reader, schema};
use sqlx::Row as _;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A node's database, opened read-only.
pub struct NodeFile {
    reader: Reader,
    sealing: Sealing,
    me: ParticipantIndex,
}

impl NodeFile {
    /// Opens the file read-only.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when there is no such database, or it cannot be read.
    pub async fn open(
        database: &Path,
        participant: ParticipantIndex,
        kek: Arc<Kek>,
    ) -> Result<Self, NodeError> {
        let reader = Reader::open(Options::at_path(database, APPLICATION, MIGRATIONS)).await?;
        Ok(Self { reader, sealing: Sealing::new(kek, participant), me: participant })
    }

    /// Checks the file, the schema and every row, in one snapshot.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be read, but not because of damage in it.
    pub async fn check(&self) -> Result<Vec<Damage>, NodeError> {
        let mut conn = self.reader.pool().acquire().await?;
        sqlx::query("BEGIN").execute(&mut *conn).await?;
        let mut checker = Checker { conn: &mut conn, sealing: &self.sealing, me: self.me, found: Vec::new() };
        checker.file().await?;
        checker.rows_while(|_| true).await?;
        let found = std::mem::take(&mut checker.found);
        sqlx::query("ROLLBACK").execute(&mut *conn).await?;
        Ok(found)
    }

    /// See [`Node::missing_shares`](crate::Node::missing_shares).
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut conn = self.reader.pool().acquire().await?;
        let mut checker = Checker { conn: &mut conn, sealing: &self.sealing, me: self.me, found: Vec::new() };
        checker.lacking(keys).await
    }

    /// Closes the database.
    pub async fn close(self) {
        self.reader.close().await;
    }
}

impl fmt::Debug for NodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeFile").field("participant", &self.me).finish_non_exhaustive()
    }
}

impl Checker<'_> {
    /// Checks the file as a whole. A corrupt page ends only the check that reads it.
    async fn file(&mut self) -> Result<(), NodeError> {
        for part in [self.integrity().await, self.schema().await, self.migrations().await] {
            match part {
                Err(error) if is_corrupt(&error) => {
                    let what = "cannot be read to its end: the file is damaged".to_owned();
                    self.at("database", String::new(), what);
                }
                part => part?,
            }
        }
        Ok(())
    }

    async fn integrity(&mut self) -> Result<(), sqlx::Error> {
        let rows = sqlx::query("PRAGMA integrity_check").fetch_all(&mut *self.conn).await?;
        for row in rows {
            let problem: String = row.try_get(0)?;
            if problem != "ok" {
                self.at("database", String::new(), format!("SQLite's integrity check: {problem}"));
            }
        }
        Ok(())
    }

    async fn schema(&mut self) -> Result<(), sqlx::Error> {
        let expected = schema::expected(MIGRATIONS).await?;
        for (object, what) in schema::differences(schema::objects(self.conn).await?, expected) {
            self.at("sqlite_schema", object, what.to_owned());
        }
        Ok(())
    }

    /// Checks the migrator's table. Numbers and checksums were compared when the file was opened.
    async fn migrations(&mut self) -> Result<(), sqlx::Error> {
        let sql =
            "SELECT version, description, CAST(success AS INTEGER) FROM _sqlx_migrations ORDER BY version";
        let notes: Vec<(i64, String, i64)> = sqlx::query_as(sql).fetch_all(&mut *self.conn).await?;
        for ((version, description, success), migration) in notes.into_iter().zip(MIGRATIONS) {
            if description != migration.name || success != 1 {
                let what = "it is not what the migrator writes".to_owned();
                self.at("_sqlx_migrations", format!("version {version}"), what);
            }
        }
        Ok(())
    }

    fn at(&mut self, table: &'static str, row: String, what: String) {
        self.found.push(Damage { table, row, what, scope: Scope::Node });
    }
}
