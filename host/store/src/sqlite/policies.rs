//! Stores bundles and activations. An activation is compared with the high-water mark in the transaction that adds it.

use crate::decode::{self, StoredActivation};
use crate::encode::integer;
use crate::encode::policies::{self as encode, ActivationRow, BundleRows, FileRow};
use crate::error::{failed, unavailable};
use crate::sqlite::Store;
use crate::sqlite::frontier::LogFrontier;
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, Activation, StorePolicies, StoredBundle};
use gateway_sqlite::{Database, Job};
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MARK: &str =
    "SELECT sequence, bundle_hash, row_hash FROM policy_activations ORDER BY sequence DESC LIMIT 1";
const ACTIVATIONS: &str = "SELECT at_ms, sequence, bundle_hash, kind, signers, reason FROM policy_activations
    ORDER BY sequence DESC LIMIT ?1";
const FILES: &str =
    "SELECT bundle_id, name, bytes FROM policy_bundles JOIN policy_bundle_files USING (bundle_hash)
    WHERE bundle_hash = ?1 ORDER BY name";
const FILE: &str = "SELECT bytes FROM policy_bundle_files WHERE bundle_hash = ?1 AND name = ?2";

struct ActivationJob {
    activation: ActivationRow,
    bundle: BundleRows,
    n_statements: Arc<AtomicU64>,
}

impl Job for ActivationJob {
    type State = LogFrontier;
    type Output = Activated;

    async fn apply(
        &self,
        conn: &mut SqliteConnection,
        log: &mut LogFrontier,
    ) -> Result<Activated, sqlx::Error> {
        let mark: Option<(i64, Vec<u8>, Vec<u8>)> = sqlx::query_as(MARK).fetch_optional(&mut *conn).await?;
        self.n_statements.fetch_add(1, Ordering::Relaxed);
        let previous = mark.as_ref().map_or(Ok(Hex32::ZERO), |(.., row_hash)| hex32(row_hash))?;
        let Some((reached, hash, _)) = mark.filter(|(reached, ..)| *reached >= self.activation.sequence)
        else {
            self.store_bundle(conn).await?;
            self.append(conn, log, previous).await?;
            return Ok(Activated::Recorded);
        };
        if hash == self.bundle.bundle_hash.as_bytes() {
            self.store_bundle(conn).await?;
            return Ok(Activated::AlreadyActive);
        }
        Ok(Activated::Superseded { reached: reached.unsigned_abs() })
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

fn hex32(row_hash: &[u8]) -> Result<Hex32, sqlx::Error> {
    let hash = row_hash.try_into().map(Hex32::new);
    hash.map_err(|_| sqlx::Error::Decode("an activation's hash is not 32 bytes".into()))
}

struct ProbeJob(EpochMs);

impl Job for ProbeJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let sql = "INSERT INTO write_probe (id, at_ms) VALUES (1, ?1)
             ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms";
        sqlx::query(sql).bind(crate::encode::instant(self.0)).execute(conn).await?;
        Ok(())
    }
}

#[async_trait]
impl StorePolicies for Store {
    async fn activation_append(
        &self,
        activation: Activation,
        bundle: StoredBundle,
    ) -> Result<Activated, Unavailable> {
        let (activation, bundle) = (encode::activation(&activation)?, encode::bundle(bundle)?);
        let job = ActivationJob { activation, bundle, n_statements: Arc::clone(&self.n_statements) };
        self.write(job, "a policy activation could not be written").await
    }

    async fn activations(&self, n_max: u32) -> Result<Vec<Activation>, Unavailable> {
        let rows = sqlx::query_as::<_, StoredActivation>(ACTIVATIONS)
            .bind(n_max)
            .fetch_all(self.database.reader())
            .await;
        let rows = rows.map_err(|error| failed("the policy activations could not be read", &error))?;
        rows.into_iter().map(decode::activation).collect()
    }

    async fn bundle_load(&self, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
        bundle(self.database.reader(), bundle_hash).await
    }

    async fn bundle_file(&self, bundle_hash: Hex32, name: &str) -> Result<Option<Vec<u8>>, Unavailable> {
        let query = sqlx::query_scalar::<_, Vec<u8>>(FILE).bind(&bundle_hash.as_bytes()[..]).bind(name);
        let row = query.fetch_optional(self.database.reader()).await;
        row.map_err(|error| failed(format_args!("bundle `{bundle_hash}` could not be read"), &error))
    }
}

/// Commits a change of one row, to find out whether the database can be written.
pub(super) async fn probe_write(database: &Database<LogFrontier>, at: EpochMs) -> Result<(), Unavailable> {
    let Err(error) = database.write(ProbeJob(at)).await else { return Ok(()) };
    // The operator who reads the readiness answer needs to know which disk needs room.
    Err(match database.full_disk() {
        Some(path) => unavailable(format_args!("the disk with `{}` is full", path.display())),
        None => failed("the database cannot be written", &error),
    })
}

/// The files of a bundle that was active once, including its signatures.
pub(super) async fn bundle(
    pool: &SqlitePool,
    bundle_hash: Hex32,
) -> Result<Option<StoredBundle>, Unavailable> {
    let query = sqlx::query_as::<_, (String, String, Vec<u8>)>(FILES).bind(&bundle_hash.as_bytes()[..]);
    let rows = query.fetch_all(pool).await;
    let rows =
        rows.map_err(|error| failed(format_args!("bundle `{bundle_hash}` could not be read"), &error))?;
    let Some(bundle_id) = rows.first().map(|(bundle_id, ..)| bundle_id.clone()) else { return Ok(None) };
    let files = rows.into_iter().map(|(_, name, bytes)| (name, bytes)).collect();
    Ok(Some(StoredBundle { bundle_hash, bundle_id, files }))
}
