//! Checks what a node holds: every share opens and matches its public keys, and rows agree with each other.
//!
//! A check reads the file, not the page cache of a connection, and a few rows at a time: [`Cursor`] is where it continues. No
//! secret leaves it: a share is opened, multiplied with the generator, compared and wiped. Findings name rows by their keys.
//! Only [`NodeFile::check`] reads the whole file.

mod file;
mod operation;
mod page;
mod share;

pub use file::NodeFile;
pub use page::Cursor;

use crate::error::NodeError;
use crate::limits::CHECKED_ROWS;
use crate::node::Node;
use crate::row_hash;
use crate::sealing::{Sealing, kept_identity};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{EpochName, Hex32, KeyId};
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use page::{Raw, Table};
use sqlx::{Connection as _, SqliteConnection};
use std::borrow::Cow;
use std::fmt;

/// Damage in a node's database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The table; `database` for the file, `sqlite_schema` for the schema.
    pub table: &'static str,
    /// The row, by its key; empty for the table as a whole.
    pub row: String,
    /// What is wrong. It contains no secret and nothing of a request.
    pub what: String,
    /// What the node cannot be used for.
    pub scope: Scope,
}

/// The part of a node that damage affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole node.
    Node,
    /// Its share of this key.
    Key(KeyId),
    /// Its records of operations, not its shares.
    Records,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, row, what, .. } = self;
        if row.is_empty() { write!(f, "{table}: {what}") } else { write!(f, "{table}, {row}: {what}") }
    }
}

impl Node {
    /// Checks some rows, beginning at `from`. Returns where to continue, or none at the end of the round.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be read, but not because of damage in it.
    pub async fn check(&self, from: Cursor) -> Result<(Vec<Damage>, Option<Cursor>), NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).rows(from, CHECKED_ROWS).await;
        conn.close().await?;
        checked
    }

    /// Checks every share and the node's identity.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn check_shares(&self) -> Result<Vec<Damage>, NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).shares().await;
        conn.close().await?;
        checked
    }

    /// The generations among `keys` that should be in force here and are not, each with what is found instead.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).lacking(keys).await;
        conn.close().await?;
        checked
    }

    fn checker<'a>(&'a self, conn: &'a mut SqliteConnection) -> Checker<'a> {
        Checker { conn, sealing: &self.sealing, me: self.config.participant, found: Vec::new() }
    }
}

/// [`Node::check_shares`] for a database that no node has open.
#[cfg(test)]
pub(crate) async fn shares_on(
    conn: &mut SqliteConnection,
    sealing: &Sealing,
    me: ParticipantIndex,
) -> Result<Vec<Damage>, NodeError> {
    Checker { conn, sealing, me, found: Vec::new() }.shares().await
}

/// A check in progress, on a fresh connection.
pub(crate) struct Checker<'a> {
    conn: &'a mut SqliteConnection,
    sealing: &'a Sealing,
    me: ParticipantIndex,
    found: Vec<Damage>,
}

/// Why the check of a row stopped.
enum Fault {
    /// The row is damaged in this way.
    Damaged(Cow<'static, str>),
    /// The row could not be checked.
    Failed(NodeError),
}

impl From<&'static str> for Fault {
    fn from(what: &'static str) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<CanonicalError> for Fault {
    fn from(_: CanonicalError) -> Self {
        Self::Damaged("it has no canonical form".into())
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        if page::is_corrupt(&error) {
            return Self::Damaged("its related rows cannot be read: the file is damaged".into());
        }
        Self::Failed(error.into())
    }
}

impl Checker<'_> {
    /// Checks up to `n_max` rows in one snapshot.
    async fn rows(&mut self, from: Cursor, n_max: u32) -> Result<(Vec<Damage>, Option<Cursor>), NodeError> {
        sqlx::query("BEGIN").execute(&mut *self.conn).await?;
        let (mut left, mut at) = (n_max, Some(from));
        while let (Some(cursor), 1..) = (&at, left) {
            let (n_rows, next) = self.page(cursor, left).await?;
            left = left.saturating_sub(n_rows);
            at = next;
        }
        sqlx::query("ROLLBACK").execute(&mut *self.conn).await?;
        Ok((std::mem::take(&mut self.found), at))
    }

    async fn shares(&mut self) -> Result<Vec<Damage>, NodeError> {
        self.rows_while(Cursor::is_of_shares).await?;
        Ok(std::mem::take(&mut self.found))
    }

    /// Checks rows from the beginning, as long as the cursor is in the part to check.
    async fn rows_while(&mut self, is_part: impl Fn(&Cursor) -> bool + Send) -> Result<(), NodeError> {
        let mut at = Some(Cursor::default());
        while let Some(cursor) = at.filter(&is_part) {
            at = self.page(&cursor, CHECKED_ROWS).await?.1;
        }
        Ok(())
    }

    async fn row(&mut self, table: Table, row: &Raw) -> Result<(), NodeError> {
        let checked = match table {
            Table::Node => self.node(row).await,
            Table::Share => self.share(row).await,
            Table::Operation => self.operation(row).await,
            Table::Statement => self.statement(row).await,
            Table::Effect => self.effect(row).await,
            Table::Consumed => self.consumed(row).await,
            Table::Ceremony => self.ceremony(row).await,
            Table::KeyUse => key_use(row),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(Fault::Failed(error)) => Err(error),
            Err(Fault::Damaged(what)) => {
                self.find(table, row.named(table), what, scope(table, row));
                Ok(())
            }
        }
    }

    fn find(&mut self, table: Table, row: String, what: impl Into<String>, scope: Scope) {
        self.found.push(Damage { table: table.name(), row, what: what.into(), scope });
    }

    async fn node(&mut self, row: &Raw) -> Result<(), Fault> {
        if row.number("one") != Some(1) {
            return Err("there is a second row".into());
        }
        match kept_identity(self.conn, self.sealing).await {
            Ok(_) => Ok(()),
            Err(NodeError::Unavailable { detail, .. }) => Err(detail.into()),
            Err(error @ (NodeError::Rejected(_) | NodeError::Lost { .. })) => Err(Fault::Failed(error)),
        }
    }

    async fn lacking(&mut self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut lacking = Vec::new();
        for (key_id, epoch) in keys {
            lacking.extend(self.lacks(*key_id, epoch).await?.map(|what| (*key_id, what)));
        }
        Ok(lacking)
    }

    /// The generation that the node signs with must be the one that the gateway has on record.
    async fn lacks(&mut self, key_id: KeyId, epoch: &Epoch) -> Result<Option<String>, NodeError> {
        let sql = "SELECT epoch, epoch_root FROM share WHERE key_id = ?1 AND state = 'active'";
        let query = sqlx::query(sql).bind(key_id.to_string());
        let found = query.fetch_optional(&mut *self.conn).await?.map(Raw::new);
        let held = found.map(|row| (row.text("epoch").unwrap_or_default(), row.hash("epoch_root")));
        let EpochName(expected) = &epoch.name;
        Ok(match held {
            Some((name, root)) if name == *expected && root == Some(epoch.root) => None,
            Some((name, _)) if name == *expected => {
                Some(format!("it holds another epoch `{expected}` than the one in force"))
            }
            Some((name, _)) => Some(format!("it holds epoch `{name}`, and epoch `{expected}` is in force")),
            None => Some(format!("it holds no share in force, and epoch `{expected}` is")),
        })
    }
}

/// A share whose key cannot be read could belong to any key, so it affects the node.
fn scope(table: Table, row: &Raw) -> Scope {
    match table {
        Table::Node => Scope::Node,
        Table::Share => row.hash("key_id").map_or(Scope::Node, |id| Scope::Key(KeyId(id))),
        Table::Operation
        | Table::Statement
        | Table::Effect
        | Table::Consumed
        | Table::Ceremony
        | Table::KeyUse => Scope::Records,
    }
}

fn key_use(row: &Raw) -> Result<(), Fault> {
    let key_id = row.text("key_id").ok_or("`key_id` is not text")?;
    let serves = row.text("serves").ok_or("`serves` is not text")?;
    check_hash(row, row_hash::key_use(&key_id, &serves))
}

/// Compares the row with its hash. Rows from before there were hashes have none.
fn check_hash(row: &Raw, expected: Result<Hex32, CanonicalError>) -> Result<(), Fault> {
    let expected = expected?.to_string();
    match row.bytes("row_hash") {
        Some(stored) if stored != expected.as_bytes() => {
            Err("it was changed: `row_hash` does not match".into())
        }
        Some(_) | None => Ok(()),
    }
}
