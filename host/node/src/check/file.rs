//! The check of a whole database file, which a running node may have open.

use super::Checker;
use crate::error::NodeError;
use crate::store::log;
use crate::store::sealing::{Sealing, load_secret};
use crate::store::tables::{Damage, Scope, is_corrupt};
use crate::store::transaction::{APPLICATION, MIGRATIONS};
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::node_log::{FORMAT, Header, LogEntry, SignedLogHead};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_seal::at_rest::Kek;
use gateway_sqlite::{Options, Reader, schema};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::io;
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
    pub async fn open(
        database: &Path,
        participant: ParticipantIndex,
        kek: Arc<Kek>,
    ) -> Result<Self, NodeError> {
        let reader = Reader::open(Options::at_path(database, APPLICATION, MIGRATIONS)).await?;
        Ok(Self { reader, sealing: Sealing::new(kek, participant), me: participant })
    }

    /// Checks the file, the schema and all rows, in one snapshot.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be read for another reason than damage, which is a finding.
    pub async fn check(&self) -> Result<Vec<Damage>, NodeError> {
        let mut conn = self.reader.readers().snapshot().await?;
        let mut checker = Checker { conn: &mut conn, sealing: &self.sealing, me: self.me, found: Vec::new() };
        checker.check_file().await?;
        checker.check_rows_while(|_| true).await?;
        Ok(checker.found)
    }

    /// See [`Node::missing_shares`](crate::Node::missing_shares).
    pub async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut conn = self.reader.readers().acquire().await?;
        let mut checker = Checker { conn: &mut conn, sealing: &self.sealing, me: self.me, found: Vec::new() };
        checker.missing_shares(keys).await
    }

    /// See [`Node::log_head`](crate::Node::log_head).
    pub async fn log_head(&self, now: EpochMs) -> Result<SignedLogHead, NodeError> {
        let mut conn = self.reader.readers().snapshot().await?;
        let secret = load_secret(&mut conn, &self.sealing).await?;
        log::signed_head(&mut conn, self.me, &secret, now).await
    }

    /// See [`Node::log_entries`](crate::Node::log_entries).
    pub async fn log_entries(&self, from: u64, n_max: u32) -> Result<Vec<LogEntry>, NodeError> {
        log::entries(&mut self.reader.readers().acquire().await?, from, n_max).await
    }

    /// Gives `write` the log, which is one line of JSON for each value: a [`Header`], the entries, and the signed head. The head is
    /// signed first: the log may grow meanwhile.
    pub async fn write_log(
        &self,
        mut write: impl FnMut(&Value) -> io::Result<()>,
        now: EpochMs,
    ) -> Result<(), NodeError> {
        let head = self.log_head(now).await?;
        let header = Header { format: FORMAT.to_owned(), participant: self.me };
        write_line(&mut write, &header)?;
        let mut next = 0;
        while next < head.head.size {
            let left = u32::try_from(head.head.size.saturating_sub(next)).unwrap_or(u32::MAX);
            let entries = self.log_entries(next, left).await?;
            if entries.is_empty() {
                return Err(NodeError::unavailable("an entry of the node's log is missing"));
            }
            for entry in &entries {
                write_line(&mut write, entry)?;
                next = next.saturating_add(1);
            }
        }
        write_line(&mut write, &head)
    }

    /// Closes the database.
    pub async fn close(self) {
        self.reader.close().await;
    }
}

fn write_line(
    write: &mut impl FnMut(&Value) -> io::Result<()>,
    value: &impl Serialize,
) -> Result<(), NodeError> {
    let value = serde_json::to_value(value).map_err(NodeError::damaged)?;
    write(&value).map_err(|error| NodeError::caused_by("the log cannot be written", error))
}

impl fmt::Debug for NodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeFile").field("participant", &self.me).finish_non_exhaustive()
    }
}

impl Checker<'_> {
    /// Checks the file as a whole. If one of the three checks reads a corrupt page, the others still run.
    async fn check_file(&mut self) -> Result<(), NodeError> {
        for checked in
            [self.check_integrity().await, self.check_schema().await, self.check_migrations().await]
        {
            match checked {
                Err(error) if is_corrupt(&error) => {
                    let what = "cannot be read completely: the file is damaged".to_owned();
                    self.report_file("database", String::new(), what);
                }
                checked => checked?,
            }
        }
        Ok(())
    }

    async fn check_integrity(&mut self) -> Result<(), sqlx::Error> {
        for row in self.conn.rows("PRAGMA integrity_check", &[]).await? {
            let problem: String = row.at(0)?;
            if problem != "ok" {
                self.report_file("database", String::new(), format!("SQLite's integrity check: {problem}"));
            }
        }
        Ok(())
    }

    async fn check_schema(&mut self) -> Result<(), sqlx::Error> {
        let expected = schema::expected(MIGRATIONS).await?;
        for (object, what) in schema::differences(schema::objects(self.conn).await?, expected) {
            self.report_file("sqlite_schema", object, what.to_owned());
        }
        Ok(())
    }

    /// Checks descriptions and success in the migrator's table. Opening the file compared versions and checksums.
    async fn check_migrations(&mut self) -> Result<(), sqlx::Error> {
        let sql =
            "SELECT version, description, CAST(success AS INTEGER) FROM _sqlx_migrations ORDER BY version";
        for (row, migration) in self.conn.rows(sql, &[]).await?.iter().zip(MIGRATIONS) {
            let version: i64 = row.at(0)?;
            if row.at::<String>(1)? != migration.name || row.at::<i64>(2)? != 1 {
                let what = "the row is not what the migrator writes".to_owned();
                self.report_file("_sqlx_migrations", format!("version {version}"), what);
            }
        }
        Ok(())
    }

    fn report_file(&mut self, table: &'static str, row: String, what: String) {
        self.found.push(Damage { table, row, what, scope: Scope::Node });
    }
}
