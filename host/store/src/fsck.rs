//! `ledger fsck`: everything that the store says, compared with what it follows from.
//!
//! Events are believed as far as their hashes hold. Everything else is made anew from them, by the functions that a commit
//! calls, and compared with what is stored; what follows from no event has a hash of its own. One read transaction sees
//! one state, also beside a gateway that writes. Memory does not grow with the log but for the custody keys, of which
//! each is kept, and eight bytes for each of their events.
//!
//! Whoever can write the database can write all of it anew so that it agrees with itself. That shows only when the log is
//! compared with a root that was kept elsewhere: [`Checked::head`].

mod claims;
mod decisions;
mod file;
pub(crate) mod keys;
pub(crate) mod operations;
mod policies;
#[cfg(test)]
mod tests;
mod tree;

use crate::error::OpenError;
use crate::sqlite::snapshot::Snapshot;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::key::CustodyKey;
use gateway_engine::Unavailable;
use gateway_engine::ports::StoredBundle;
use std::fmt;

use crate::row::{Cell, Row};

/// Rows read in one statement.
const PAGE: i64 = 256;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In which table; `sqlite_schema` for the schema, `database` for the file.
    pub table: String,
    /// Which row, by its key; empty when it is about the table.
    pub row: String,
    /// What is wrong. Nothing of a request is repeated in it.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, row, what } = self;
        if row.is_empty() { write!(f, "{table}: {what}") } else { write!(f, "{table}, {row}: {what}") }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rows of `events`.
    pub n_events: u64,
    /// Operations that have a row or an event.
    pub n_operations: u64,
    /// Custody keys that the events make.
    pub n_keys: u64,
    /// Rows of `policy_decisions`.
    pub n_decisions: u64,
    /// Rows of `policy_previews`.
    pub n_previews: u64,
    /// Rows of `policy_activations`.
    pub n_activations: u64,
    /// The log's head, to be compared with a checkpoint that was kept; none when leaves are missing.
    pub head: Option<Head>,
}

/// The head of the log of all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// How many events it has.
    pub n_leaves: u64,
    /// Its root, made of the leaves.
    pub root: Hex32,
}

/// Why a check goes no further.
#[derive(Debug)]
pub(crate) enum Stop {
    /// SQLite cannot make sense of the file: a finding.
    Damaged,
    /// Nothing can be said.
    Failed(Unavailable),
}

impl From<Unavailable> for Stop {
    fn from(error: Unavailable) -> Self {
        Self::Failed(error)
    }
}

/// A store that is checked. It is only read, as it was at the first read.
#[derive(Debug)]
pub struct Fsck {
    snapshot: Snapshot,
}

impl Fsck {
    /// Opens the database at `location`, as [`Store::open`](crate::Store::open) reads it. A gateway may have it open.
    ///
    /// # Errors
    /// [`OpenError`]: there is none, it is another program's or release's, or it can not be read.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(Self { snapshot: Snapshot::open(location).await? })
    }

    /// Checks everything, and tells what is wrong as it is found. Nothing found: everything agrees.
    ///
    /// Whether the files of a policy bundle make its hash is for those to say who know bundles: [`Self::bundle`].
    ///
    /// # Errors
    /// [`Unavailable`] when the database can not be read for another reason than what is in it.
    pub async fn check(&mut self, found: &mut (dyn FnMut(Finding) + Send)) -> Result<Checked, Unavailable> {
        let mut check = Check { snapshot: &mut self.snapshot, found, checked: Checked::default() };
        let file = check.file().await;
        check.went("sqlite_schema", file)?;
        let operations = check.operations().await;
        let moves = check.went("operations", operations)?;
        let tree = check.tree().await;
        check.went("ledger_nodes", tree)?;
        if let Some(moves) = moves {
            let keys = check.keys(moves).await;
            check.went("custody_keys", keys)?;
        }
        let claims = check.claims().await;
        check.went("idempotency_claims", claims)?;
        let lists = check.key_operations().await;
        check.went("key_operations", lists)?;
        let decisions = check.decisions().await;
        check.went("policy_decisions", decisions)?;
        let previews = check.previews().await;
        check.went("policy_previews", previews)?;
        let bundles = check.bundles().await;
        check.went("policy_bundles", bundles)?;
        let activations = check.activations().await;
        check.went("policy_activations", activations)?;
        Ok(check.checked)
    }

    /// The hashes under which bundles are kept.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn bundle_hashes(&mut self) -> Result<Vec<Hex32>, Unavailable> {
        let rows = self.snapshot.rows(policies::BUNDLES, &[]).await;
        let hashes = |rows: Vec<Row>| rows.iter().filter_map(|row| row.hash("bundle_hash")).collect();
        unless_damaged(rows.map(hashes))
    }

    /// A kept bundle; what has no name that could be one is left out, and found by [`Self::check`].
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn bundle(&mut self, bundle_hash: Hex32) -> Result<StoredBundle, Unavailable> {
        unless_damaged(policies::kept(&mut self.snapshot, bundle_hash).await)
    }

    /// Some keys by id, those after `after`, and the last of them unless it is the last of all. A row that can not be read
    /// is left out, and found by [`Self::check`].
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn keys_after(
        &mut self,
        after: Option<KeyId>,
    ) -> Result<(Vec<CustodyKey>, Option<KeyId>), Unavailable> {
        unless_damaged(keys::stored(&mut self.snapshot, after).await)
    }

    /// A key, as [`Self::keys_after`] has it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn key(&mut self, id: KeyId) -> Result<Option<CustodyKey>, Unavailable> {
        unless_damaged(keys::stored_one(&mut self.snapshot, id).await)
    }

    /// Lets the database go.
    pub async fn close(self) {
        self.snapshot.close().await;
    }
}

/// What is damaged was found by [`Fsck::check`].
fn unless_damaged<T>(read: Result<T, Stop>) -> Result<T, Unavailable> {
    read.map_err(|stop| match stop {
        Stop::Damaged => crate::error::unavailable("the database is damaged"),
        Stop::Failed(error) => error,
    })
}

/// A check on its way.
pub(crate) struct Check<'a> {
    snapshot: &'a mut Snapshot,
    found: &'a mut (dyn FnMut(Finding) + Send),
    checked: Checked,
}

impl Check<'_> {
    fn finding(&mut self, table: &str, row: impl Into<String>, what: impl Into<String>) {
        crate::history::finding(self.found, table, row, what);
    }

    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, Stop> {
        self.snapshot.rows(sql, bound).await
    }

    /// What came of a part; a part that met damaged pages ends with a finding, and the next goes on.
    fn went<T>(&mut self, table: &str, outcome: Result<T, Stop>) -> Result<Option<T>, Unavailable> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Damaged) => {
                self.finding(table, "", "can not be read to its end: the file is damaged");
                Ok(None)
            }
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}
