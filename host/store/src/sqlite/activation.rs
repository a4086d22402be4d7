//! Stores an activation, after comparing it with the high-water mark in the same transaction.

use crate::record::encode::integer;
use crate::record::encode::policies::{ActivationRow, BundleRows, FileRow, LAST_ACTIVATION, Place};
use crate::record::frontier::LogFrontier;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::Activated;
use gateway_sqlite::Job;
use sqlx::SqliteConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct ActivationJob {
    pub(super) activation: ActivationRow,
    pub(super) bundle: BundleRows,
    pub(super) n_statements: Arc<AtomicU64>,
}

impl Job for ActivationJob {
    type State = LogFrontier;
    type Output = Activated;

    async fn apply(
        &self,
        conn: &mut SqliteConnection,
        log: &mut LogFrontier,
    ) -> Result<Activated, sqlx::Error> {
        let last = sqlx::query_as(LAST_ACTIVATION).fetch_optional(&mut *conn).await?;
        self.n_statements.fetch_add(1, Ordering::Relaxed);
        match Place::of(&self.activation, last)? {
            Place::Behind(previous) => {
                self.store_bundle(conn).await?;
                self.append(conn, log, previous).await?;
                Ok(Activated::Recorded)
            }
            Place::Active => {
                self.store_bundle(conn).await?;
                Ok(Activated::AlreadyActive)
            }
            Place::Superseded { reached } => Ok(Activated::Superseded { reached }),
        }
    }
}

impl ActivationJob {
    /// Replaces the bundle's files: its hash covers all but the signatures, which may have been added or removed.
    async fn store_bundle(&self, conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let hash = &self.bundle.bundle_hash.as_bytes()[..];
        let bundle = "INSERT INTO policy_bundles (bundle_hash, bundle_id, row_hash) VALUES (?1, ?2, ?3)
             ON CONFLICT (bundle_hash) DO UPDATE SET row_hash = excluded.row_hash";
        let insert = sqlx::query(bundle).bind(hash).bind(self.bundle.bundle_id.as_str());
        insert.bind(&self.bundle.row_hash.as_bytes()[..]).execute(&mut *conn).await?;
        sqlx::query("DELETE FROM policy_bundle_files WHERE bundle_hash = ?1")
            .bind(hash)
            .execute(&mut *conn)
            .await?;
        for FileRow { name, bytes, row_hash } in &self.bundle.files {
            let file = "INSERT INTO policy_bundle_files (bundle_hash, name, bytes, row_hash) VALUES (?1, ?2, ?3, ?4)";
            let insert = sqlx::query(file).bind(hash).bind(name.as_str()).bind(bytes.as_slice());
            insert.bind(&row_hash.as_bytes()[..]).execute(&mut *conn).await?;
        }
        let n_statements = u64::try_from(self.bundle.files.len()).unwrap_or(u64::MAX).saturating_add(2);
        self.n_statements.fetch_add(n_statements, Ordering::Relaxed);
        Ok(())
    }

    /// Appends the activation as the log's next entry.
    async fn append(
        &self,
        conn: &mut SqliteConnection,
        log: &mut LogFrontier,
        previous: Hex32,
    ) -> Result<(), sqlx::Error> {
        let row = &self.activation;
        let row_hash = row.hash(previous).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let appended = log.append([row_hash].into_iter());
        let sql = "INSERT INTO policy_activations
             (sequence, at_ms, bundle_hash, kind, signers, reason, row_hash, ledger_index, ledger_root)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let insert = sqlx::query(sql).bind(row.sequence).bind(row.at_ms);
        let insert = insert.bind(&row.bundle_hash.as_bytes()[..]).bind(row.kind);
        let insert = insert.bind(row.signers.as_str()).bind(row.reason.as_str());
        let insert = insert.bind(&row_hash.as_bytes()[..]);
        let insert = insert.bind(log.next_index());
        insert.bind(&appended.root.as_bytes()[..]).execute(&mut *conn).await?;
        for node in &appended.nodes {
            let sql = "INSERT INTO ledger_nodes (level, position, hash) VALUES (?1, ?2, ?3)";
            let insert = sqlx::query(sql).bind(node.level);
            let insert = insert.bind(integer(node.index));
            insert.bind(&node.hash.as_bytes()[..]).execute(&mut *conn).await?;
        }
        let n_statements = u64::try_from(appended.nodes.len()).unwrap_or(u64::MAX).saturating_add(1);
        self.n_statements.fetch_add(n_statements, Ordering::Relaxed);
        *log = appended.frontier;
        Ok(())
    }
}

pub(super) struct ProbeJob(pub(super) EpochMs);

impl Job for ProbeJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let sql = "INSERT INTO write_probe (id, at_ms) VALUES (1, ?1)
             ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms";
        sqlx::query(sql).bind(crate::record::encode::instant(self.0)).execute(conn).await?;
        Ok(())
    }
}
