//! Checks a node's database: shares open and match their public keys, and rows agree with each other.
//!
//! A running node checks a few rows at a time, and a [`Cursor`] says where to continue. It uses a new connection, so that rows
//! come from the file and not from a page cache. A share is opened, multiplied with the generator, compared and wiped; findings
//! contain no secret. [`NodeFile::check`] checks a whole file, with its structure and schema.

mod file;
pub(crate) mod health;
mod log;
mod operation;
mod share;

pub use file::NodeFile;

use crate::error::NodeError;
use crate::limits::CHECKED_ROWS;
use crate::node::Node;
use crate::store::row_hash;
use crate::store::sealing::{Sealing, load_identity};
use crate::store::tables::{Cursor, Damage, Scope, Table, hash, is_corrupt};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{EpochName, Hex32, KeyId};
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_spending::documents;
use gateway_sqlite::{Cell, Connection, Row};
use std::borrow::Cow;

impl Node {
    /// Checks up to [`CHECKED_ROWS`] rows, beginning at `from`. Returns the damage and where to continue; `None` after the last
    /// row.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be read for another reason than damage, which is a finding.
    pub async fn check(&self, from: Cursor) -> Result<(Vec<Damage>, Option<Cursor>), NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).rows(from, CHECKED_ROWS).await;
        conn.end().await?;
        checked
    }

    /// Checks the node's identity, whether the node has stopped because its database is older than what it signed, and every share.
    pub async fn check_shares(&self) -> Result<Vec<Damage>, NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).shares().await;
        conn.end().await?;
        checked
    }

    /// The keys whose epoch is not the one that this node signs with, each with what the node has instead.
    pub async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).missing_shares(keys).await;
        conn.end().await?;
        checked
    }

    fn checker<'a>(&'a self, conn: &'a mut Connection) -> Checker<'a> {
        Checker { conn, sealing: &self.sealing, me: self.config.participant, found: Vec::new() }
    }
}

/// [`Node::check_shares`] for a database that no node has open.
#[cfg(test)]
pub(crate) async fn shares_on(
    conn: &mut Connection,
    sealing: &Sealing,
    me: ParticipantIndex,
) -> Result<Vec<Damage>, NodeError> {
    Checker { conn, sealing, me, found: Vec::new() }.shares().await
}

/// A check in progress, on a fresh connection.
pub(crate) struct Checker<'a> {
    conn: &'a mut Connection,
    sealing: &'a Sealing,
    me: ParticipantIndex,
    found: Vec<Damage>,
}

/// Why the check of a row ended early.
enum CheckError {
    /// The row is damaged in this way.
    Damaged(Cow<'static, str>),
    /// The row could not be checked.
    Failed(NodeError),
}

impl From<&'static str> for CheckError {
    fn from(what: &'static str) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<String> for CheckError {
    fn from(what: String) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<CanonicalError> for CheckError {
    fn from(_: CanonicalError) -> Self {
        Self::Damaged("the row has no canonical form".into())
    }
}

impl From<sqlx::Error> for CheckError {
    fn from(error: sqlx::Error) -> Self {
        if is_corrupt(&error) {
            return Self::Damaged("related rows cannot be read: the file is damaged".into());
        }
        Self::Failed(error.into())
    }
}

impl Checker<'_> {
    /// Checks up to `n_max` rows in one snapshot.
    async fn rows(&mut self, from: Cursor, n_max: u32) -> Result<(Vec<Damage>, Option<Cursor>), NodeError> {
        self.conn.run("BEGIN", &[]).await?;
        let (mut left, mut at) = (n_max, Some(from));
        while let (Some(cursor), 1..) = (&at, left) {
            let (n_rows, next) = self.check_page(cursor, left).await?;
            left = left.saturating_sub(n_rows);
            at = next;
        }
        self.conn.run("ROLLBACK", &[]).await?;
        Ok((std::mem::take(&mut self.found), at))
    }

    async fn shares(&mut self) -> Result<Vec<Damage>, NodeError> {
        self.check_rows_while(Cursor::is_of_shares).await?;
        Ok(std::mem::take(&mut self.found))
    }

    /// Checks rows from the beginning until the end, or until `continues` is false for the next cursor.
    async fn check_rows_while(
        &mut self,
        continues: impl Fn(&Cursor) -> bool + Send,
    ) -> Result<(), NodeError> {
        let mut at = Some(Cursor::default());
        while let Some(cursor) = at.filter(&continues) {
            at = self.check_page(&cursor, CHECKED_ROWS).await?.1;
        }
        Ok(())
    }

    /// Checks up to `n_max` rows of one table. Returns their number, and where to continue.
    async fn check_page(&mut self, cursor: &Cursor, n_max: u32) -> Result<(u32, Option<Cursor>), NodeError> {
        let Cursor { table, after } = cursor;
        // A file can have megabytes.
        let n_max = if *table == Table::BundleFile { 1 } else { n_max };
        let next_table = table.next().map(|table| Cursor { table, after: None });
        let selected = match table {
            Table::SpendingSums => gateway_spending::differences(self.conn).await,
            _ => self.select(cursor, n_max).await,
        };
        let rows = match selected {
            Ok(rows) => rows,
            Err(error) if is_corrupt(&error) => {
                let scope = if cursor.is_of_shares() { Scope::Node } else { Scope::Records };
                self.report(*table, String::new(), "cannot be read completely: the file is damaged", scope);
                return Ok((0, next_table));
            }
            Err(error) => return Err(error.into()),
        };
        if rows.is_empty() && after.is_none() && *table == Table::Node {
            self.report(*table, String::new(), "the row with the node's identity is missing", Scope::Node);
        }
        for row in &rows {
            self.check_row(*table, row).await?;
        }
        let n_rows = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let next = match rows.last() {
            Some(last) if n_rows >= n_max && *table != Table::SpendingSums => {
                Some(Cursor { table: *table, after: Some(table.key_of(last)) })
            }
            Some(_) | None => next_table,
        };
        Ok((n_rows, next))
    }

    async fn select(&mut self, cursor: &Cursor, n_max: u32) -> Result<Vec<Row>, sqlx::Error> {
        let Cursor { table, after } = cursor;
        let columns = table.key().join(", ");
        let parameter = |(number, column): (usize, &&str)| {
            // Bytes that are not UTF-8 are not bound as text.
            if Table::is_number(column) { format!("?{number}") } else { format!("CAST(?{number} AS TEXT)") }
        };
        let condition = after.as_ref().map(|_| {
            let parameters: Vec<_> = (1..).zip(table.key()).map(parameter).collect();
            format!("WHERE ({columns}) > ({})", parameters.join(", "))
        });
        let (name, condition) = (table.name(), condition.unwrap_or_default());
        let sql = format!("SELECT * FROM {name} {condition} ORDER BY {columns} LIMIT {n_max}");
        self.conn.rows(&sql, after.as_deref().unwrap_or_default()).await
    }

    async fn check_row(&mut self, table: Table, row: &Row) -> Result<(), NodeError> {
        let checked = match table {
            Table::Node => self.check_node(row).await,
            Table::RolledBack => self.check_rolled_back(row).await,
            Table::Share => self.check_share(row).await,
            Table::Operation => self.check_operation(row).await,
            Table::Statement => self.check_statement(row).await,
            Table::Effect => self.check_effect(row).await,
            Table::Consumed => self.check_consumed(row).await,
            Table::Ceremony => self.check_ceremony(row).await,
            Table::LogEntry => self.check_log_entry(row).await,
            Table::Bundle => self.check_bundle(row).await,
            Table::BundleFile => self.check_bundle_file(row).await,
            Table::Document if documents::is_intact(row) => Ok(()),
            Table::Document => Err("the row was changed: `row_hash` does not match".into()),
            Table::Spending => check_spending(row),
            // Only rows that differ are read.
            Table::SpendingSums => Err("it is not the sum of the payments in `spending`".into()),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(CheckError::Failed(error)) => Err(error),
            Err(CheckError::Damaged(what)) => {
                self.report(table, table.describe_key(row), what, scope(table, row));
                Ok(())
            }
        }
    }

    fn report(&mut self, table: Table, row: String, what: impl Into<String>, scope: Scope) {
        self.found.push(Damage { table: table.name(), row, what: what.into(), scope });
    }

    async fn check_node(&mut self, row: &Row) -> Result<(), CheckError> {
        if row.integer("one") != Some(1) {
            return Err("the table has a second row".into());
        }
        match load_identity(self.conn, self.sealing).await {
            Ok(_) => Ok(()),
            Err(NodeError::Unavailable { detail, .. }) => Err(CheckError::Damaged(detail)),
            Err(
                error @ (NodeError::Rejected(_) | NodeError::Lost { .. } | NodeError::BundleUnknown { .. }),
            ) => Err(CheckError::Failed(error)),
        }
    }

    async fn check_bundle(&mut self, row: &Row) -> Result<(), CheckError> {
        let bundle_hash = row.text("bundle_hash").ok_or("`bundle_hash` is not text")?;
        let files = row.text("files").ok_or("`files` are not text")?;
        let stored = row_hash::Bundle {
            bundle_hash,
            sequence: row.integer("sequence").ok_or("`sequence` is not a number")?,
            offered_at_ms: row.integer("offered_at_ms").ok_or("`offered_at_ms` is not a number")?,
            active_at_ms: row.integer("active_at_ms"),
            files,
        };
        check_hash(row, stored.hash())?;
        for name in files.lines() {
            let sql = "SELECT EXISTS (SELECT 1 FROM bundle_file WHERE bundle_hash = ?1 AND name = ?2)";
            if !self.conn.value::<bool>(sql, &[bundle_hash.into(), name.into()]).await? {
                return Err(format!("its file is missing: bundle_hash {bundle_hash}, name {name}").into());
            }
        }
        Ok(())
    }

    async fn check_bundle_file(&mut self, row: &Row) -> Result<(), CheckError> {
        let bundle_hash = row.text("bundle_hash").ok_or("`bundle_hash` is not text")?;
        let name = row.text("name").ok_or("`name` is not text")?;
        let bytes = row.bytes("bytes").ok_or("`bytes` are missing")?;
        check_hash(row, row_hash::bundle_file(bundle_hash, name, bytes))?;
        let sql = "SELECT EXISTS (SELECT 1 FROM bundle WHERE bundle_hash = ?1)";
        if self.conn.value(sql, &[bundle_hash.into()]).await? {
            Ok(())
        } else {
            Err("the file belongs to no bundle".into())
        }
    }

    async fn missing_shares(&mut self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut missing = Vec::new();
        for (key_id, epoch) in keys {
            missing.extend(self.missing_share(*key_id, epoch).await?.map(|what| (*key_id, what)));
        }
        Ok(missing)
    }

    /// What the node has instead of an active share of this epoch; `None` if it has one.
    async fn missing_share(&mut self, key_id: KeyId, epoch: &Epoch) -> Result<Option<String>, NodeError> {
        let sql = "SELECT epoch, epoch_root FROM share WHERE key_id = ?1 AND state = 'active'";
        let found = self.conn.row(sql, &[key_id.to_string().into()]).await?;
        let held = found.as_ref().map(|row| (row.text("epoch").unwrap_or_default(), hash(row, "epoch_root")));
        let EpochName(expected) = &epoch.name;
        Ok(match held {
            Some((name, root)) if name == *expected && root == Some(epoch.root) => None,
            Some((name, _)) if name == *expected => {
                Some(format!("the node's share of epoch `{expected}` has another epoch root"))
            }
            Some((name, _)) => Some(format!("the node's share is of epoch `{name}`, not `{expected}`")),
            None => Some(format!("the node has no active share, although epoch `{expected}` is in force")),
        })
    }
}

/// What damage in this row affects. A share whose key id cannot be read could belong to any key, so it affects the node.
fn scope(table: Table, row: &Row) -> Scope {
    match table {
        // A node that was rolled back makes no step.
        Table::Node | Table::RolledBack => Scope::Node,
        Table::Share => hash(row, "key_id").map_or(Scope::Node, |id| Scope::Key(KeyId(id))),
        Table::Operation
        | Table::Statement
        | Table::Effect
        | Table::Consumed
        | Table::Ceremony
        | Table::LogEntry
        | Table::Bundle
        | Table::BundleFile
        | Table::Document
        | Table::Spending
        | Table::SpendingSums => Scope::Records,
    }
}

fn check_spending(row: &Row) -> Result<(), CheckError> {
    let text = |column: &'static str| row.text(column).ok_or_else(|| format!("`{column}` is not text"));
    let stored = row_hash::Spending {
        operation_id: text("operation_id")?,
        tenant: text("tenant")?,
        account: text("account")?,
        recipient: text("recipient")?,
        submitter: text("submitter")?,
        key_id: text("key_id")?,
        currency: text("currency")?,
        amount_minor: row.integer("amount_minor").ok_or("`amount_minor` is not a number")?,
        at_ms: row.integer("at_ms").ok_or("`at_ms` is not a number")?,
    };
    check_hash(row, stored.hash())
}

/// Compares the row with its hash. Rows that an earlier version wrote have none.
fn check_hash(row: &Row, expected: Result<Hex32, CanonicalError>) -> Result<(), CheckError> {
    let (stored, expected) = (row.cell("row_hash"), Cell::from(expected?.to_string()));
    if *stored == Cell::Null || *stored == expected {
        Ok(())
    } else {
        Err("the row was changed: `row_hash` does not match".into())
    }
}
