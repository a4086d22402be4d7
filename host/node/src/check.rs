//! What a node holds, checked: every share opens, decodes and is the one of its public keys; every row says what follows
//! from it.
//!
//! A check reads the files, never what connections remember, and a few rows at a time: [`Cursor`] says where it goes on.
//! No secret leaves it: a share is opened, multiplied with the generator, compared and wiped, and what is found names
//! rows by their keys. Only [`NodeFile::file`] reads all of the file at once.

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
use crate::sealing::{Sealing, kept_identity_on};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{EpochName, Hex32, KeyId};
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use page::{Raw, Table};
use sqlx::{Connection as _, SqliteConnection};
use std::borrow::Cow;
use std::fmt;

/// Something in a node's database that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// In which table; `database` for the file, `sqlite_schema` for the schema.
    pub table: &'static str,
    /// Which row, by its key; empty when it is about the table.
    pub row: String,
    /// What is wrong: no secret, and nothing of a request.
    pub what: String,
    /// What the node can not be relied on for.
    pub scope: Scope,
}

/// What damage is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The node as a whole.
    Node,
    /// Its share of this key.
    Key(KeyId),
    /// What it keeps of operations: its shares are not touched by it.
    Records,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, row, what, .. } = self;
        if row.is_empty() { write!(f, "{table}: {what}") } else { write!(f, "{table}, {row}: {what}") }
    }
}

impl Node {
    /// Checks some rows, beginning at `from`; where to go on, or none at the end of the round.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database can not be read for another reason than what is in it.
    pub async fn check(&self, from: Cursor) -> Result<(Vec<Damage>, Option<Cursor>), NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).rows(from, CHECKED_ROWS).await;
        conn.close().await?;
        checked
    }

    /// Checks every share, and that the node is who it was.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn check_shares(&self) -> Result<Vec<Damage>, NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).shares().await;
        conn.close().await?;
        checked
    }

    /// Of these generations, which must be in force here, those that are not, and what is instead.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn check_holds(&self, keys: &[(KeyId, Epoch)]) -> Result<Vec<(KeyId, String)>, NodeError> {
        let mut conn = self.database.fresh_reader().await?;
        let checked = self.checker(&mut conn).lacking(keys).await;
        conn.close().await?;
        checked
    }

    fn checker<'a>(&'a self, conn: &'a mut SqliteConnection) -> Checker<'a> {
        Checker { conn, sealing: &self.sealing, me: self.config.participant, found: Vec::new() }
    }
}

/// [`Node::check_shares`], of a database that no node has open.
#[cfg(test)]
pub(crate) async fn shares_on(
    conn: &mut SqliteConnection,
    sealing: &Sealing,
    me: ParticipantIndex,
) -> Result<Vec<Damage>, NodeError> {
    Checker { conn, sealing, me, found: Vec::new() }.shares().await
}

/// A check on its way, on a connection that saw nothing before.
pub(crate) struct Checker<'a> {
    conn: &'a mut SqliteConnection,
    sealing: &'a Sealing,
    me: ParticipantIndex,
    found: Vec<Damage>,
}

/// Why a row is not checked to its end.
enum Fault {
    /// This is wrong with it.
    Damaged(Cow<'static, str>),
    /// Nothing can be said.
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
            return Self::Damaged("what belongs to it can not be read: the file is damaged".into());
        }
        Self::Failed(error.into())
    }
}

impl Checker<'_> {
    /// Up to `n_max` rows, as they are at one moment.
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
        let mut at = Some(Cursor::default());
        while let Some(cursor) = at.filter(Cursor::is_of_shares) {
            at = self.page(&cursor, CHECKED_ROWS).await?.1;
        }
        Ok(std::mem::take(&mut self.found))
    }

    /// Every row.
    async fn everything(&mut self) -> Result<(), NodeError> {
        let mut at = Some(Cursor::default());
        while let Some(cursor) = at {
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
            return Err("there is another row than the one".into());
        }
        match kept_identity_on(self.conn, self.sealing).await {
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

    /// What the node signs with must be what the gateway has on record.
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

/// A share that does not say of which key it is could be of any.
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
    let key_id = row.text("key_id").ok_or("`key_id` is no text")?;
    let serves = row.text("serves").ok_or("`serves` is no text")?;
    check_hash(row, row_hash::key_use(&key_id, &serves))
}

/// Whether the row is the one that was written; nobody knows of a row from before there were hashes.
fn check_hash(row: &Raw, expected: Result<Hex32, CanonicalError>) -> Result<(), Fault> {
    let expected = expected?.to_string();
    match row.bytes("row_hash") {
        Some(stored) if stored != expected.as_bytes() => {
            Err("it is not as it was written: `row_hash` is another".into())
        }
        Some(_) | None => Ok(()),
    }
}
