//! `ledger fsck`: checks the whole store.
//!
//! The events of an operation must form a hash chain. The rows that are derived from events are rebuilt, by the
//! functions that a commit calls, and compared with the stored rows; other rows have a hash of themselves. One read
//! transaction sees one state, even while a gateway writes. The check holds sixteen bytes in memory for each event that
//! may change a custody key, and the ids of all keys.
//!
//! A program that can write the database can rewrite all of it consistently. Only a comparison of the log with a root kept
//! elsewhere detects that: [`Checked::head`].

mod check;
mod claims;
mod decisions;
mod file;
mod keys;
mod operations;
mod policies;
mod retention;
mod snapshot;
mod tree;

use crate::database::OpenError;
use crate::error::unavailable;
use crate::record::finding::Finding;
use crate::sql::row::{Hashes, Row};
#[cfg(test)]
pub(crate) use check::PAGE;
use check::{Check, Dropped};
pub use check::{Checked, Head};
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::key::CustodyKey;
use gateway_engine::Unavailable;
use gateway_engine::ports::StoredBundle;
use snapshot::{Snapshot, Stop};

/// A read-only view of a store, as of its first read, for checking it.
#[derive(Debug)]
pub struct Fsck {
    snapshot: Snapshot,
}

impl Fsck {
    /// Opens the database at `location`, in the form that [`Store::open`](crate::Store::open) takes. A gateway may have it
    /// open.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(Self { snapshot: Snapshot::open(location).await? })
    }

    /// Checks the store and reports each finding immediately. Without findings the store is consistent.
    ///
    /// Does not check that the files of a policy bundle have the bundle's hash: the caller does, with [`Self::bundle`].
    ///
    /// # Errors
    /// [`Unavailable`] if the database cannot be read, other than because of damage to its content.
    pub async fn check(
        &mut self,
        findings: &mut (dyn FnMut(Finding) + Send),
    ) -> Result<Checked, Unavailable> {
        self.check_with_progress(findings, &mut |_, _| {}).await
    }

    /// As [`Self::check`]. `progress` gets how many parts of how many are checked.
    pub async fn check_with_progress(
        &mut self,
        findings: &mut (dyn FnMut(Finding) + Send),
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Checked, Unavailable> {
        let checked = Checked::default();
        let dropped = Dropped::default();
        let mut check = Check { snapshot: &mut self.snapshot, findings, progress, checked, dropped };
        let file = check.file().await;
        check.ended("sqlite_schema", file)?;
        let dropped = check.read_dropped().await;
        check.ended("rows_dropped", dropped)?;
        let operations = check.operations().await;
        let key_events = check.ended("operations", operations)?;
        if key_events.is_some() {
            check.spending_dropped();
        }
        let sums = check.spending_sums().await;
        check.ended("spending_sums", sums)?;
        let tree = check.tree().await;
        check.ended("ledger_nodes", tree)?;
        if let Some(key_events) = key_events {
            let keys = check.keys(key_events).await;
            check.ended("custody_keys", keys)?;
        }
        let claims = check.claims().await;
        check.ended("idempotency_claims", claims)?;
        let lists = check.key_operations().await;
        check.ended("key_operations", lists)?;
        let decisions = check.decisions().await;
        check.ended("policy_decisions", decisions)?;
        let previews = check.previews().await;
        check.ended("policy_previews", previews)?;
        let bundles = check.bundles().await;
        check.ended("policy_bundles", bundles)?;
        let activations = check.activations().await;
        check.ended("policy_activations", activations)?;
        Ok(check.checked)
    }

    /// The hashes of the stored bundles.
    pub async fn bundle_hashes(&mut self) -> Result<Vec<Hex32>, Unavailable> {
        let rows = self.snapshot.rows(policies::BUNDLES, &[]).await;
        let hashes = |rows: Vec<Row>| rows.iter().filter_map(|row| row.hash("bundle_hash")).collect();
        unless_damaged(rows.map(hashes))
    }

    /// A stored bundle, without files whose names are not text: [`Self::check`] reports those.
    pub async fn bundle(&mut self, bundle_hash: Hex32) -> Result<StoredBundle, Unavailable> {
        unless_damaged(policies::stored(&mut self.snapshot, bundle_hash).await)
    }

    /// A page of keys by id, starting after `after`, and the `after` of the next page; `None` at the end. Skips rows
    /// that cannot be read: [`Self::check`] reports those.
    pub async fn keys_after(
        &mut self,
        after: Option<KeyId>,
    ) -> Result<(Vec<CustodyKey>, Option<KeyId>), Unavailable> {
        unless_damaged(keys::stored(&mut self.snapshot, after).await)
    }

    /// One key, read like [`Self::keys_after`].
    pub async fn key(&mut self, id: KeyId) -> Result<Option<CustodyKey>, Unavailable> {
        unless_damaged(keys::stored_one(&mut self.snapshot, id).await)
    }

    /// Closes the database.
    pub async fn close(self) {
        self.snapshot.close().await;
    }
}

/// Turns damage into an error without details: [`Fsck::check`] reports those.
fn unless_damaged<T>(read: Result<T, Stop>) -> Result<T, Unavailable> {
    read.map_err(|stop| match stop {
        Stop::Damaged => unavailable("the database is damaged"),
        Stop::Failed(error) => error,
    })
}
