//! Stores an activation, after comparing it with the high-water mark in the same transaction.

use crate::postgres::job::{Job, NodeColumns};
use crate::record::encode::instant;
use crate::record::encode::policies::{ActivationRow, BundleRows, LAST_ACTIVATION, Place};
use crate::record::frontier::LogFrontier;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::Activated;
use sqlx::PgConnection;

const INSERT: &str = "WITH new_nodes AS (
        INSERT INTO ledger_nodes (level, position, hash) SELECT * FROM unnest($10, $11, $12)),
    counted AS (
        INSERT INTO row_counters (name, seq) VALUES ('policy_activations', $1)
        ON CONFLICT (name) DO UPDATE SET seq = excluded.seq)
    INSERT INTO policy_activations
    (sequence, at_ms, bundle_hash, kind, signers, reason, row_hash, ledger_index, ledger_root)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

pub(super) struct ActivationJob {
    pub(super) activation: ActivationRow,
    pub(super) bundle: BundleRows,
}

impl Job for ActivationJob {
    type Output = Activated;

    async fn apply(&self, conn: &mut PgConnection, log: &mut LogFrontier) -> Result<Activated, sqlx::Error> {
        let last = sqlx::query_as(LAST_ACTIVATION).fetch_optional(&mut *conn).await?;
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
    async fn store_bundle(&self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        let BundleRows { bundle_hash, bundle_id, row_hash, files } = &self.bundle;
        let hash = &bundle_hash.as_bytes()[..];
        let bundle = "INSERT INTO policy_bundles (bundle_hash, bundle_id, row_hash) VALUES ($1, $2, $3)
             ON CONFLICT (bundle_hash) DO UPDATE SET row_hash = excluded.row_hash";
        let insert = sqlx::query(bundle).bind(hash).bind(bundle_id.as_str()).bind(&row_hash.as_bytes()[..]);
        insert.execute(&mut *conn).await?;
        let delete = sqlx::query("DELETE FROM policy_bundle_files WHERE bundle_hash = $1").bind(hash);
        delete.execute(&mut *conn).await?;
        let rows = "INSERT INTO policy_bundle_files (bundle_hash, name, bytes, row_hash)
            SELECT $1, * FROM unnest($2, $3, $4)";
        let insert = sqlx::query(rows).bind(hash);
        let insert = insert.bind(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>());
        let insert = insert.bind(files.iter().map(|file| file.bytes.as_slice()).collect::<Vec<_>>());
        let hashes: Vec<_> = files.iter().map(|file| &file.row_hash.as_bytes()[..]).collect();
        insert.bind(hashes).execute(conn).await?;
        Ok(())
    }

    /// Appends the activation as the log's next entry.
    async fn append(
        &self,
        conn: &mut PgConnection,
        log: &mut LogFrontier,
        previous: Hex32,
    ) -> Result<(), sqlx::Error> {
        let row = &self.activation;
        let row_hash = row.hash(previous).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let appended = log.append([row_hash].into_iter());
        let NodeColumns { levels, positions, hashes } = NodeColumns::of(&appended);
        let insert = sqlx::query(INSERT).bind(row.sequence).bind(row.at_ms);
        let insert = insert.bind(&row.bundle_hash.as_bytes()[..]).bind(row.kind);
        let insert = insert.bind(row.signers.as_str()).bind(row.reason.as_str());
        let insert = insert.bind(&row_hash.as_bytes()[..]).bind(log.next_index());
        let insert = insert.bind(&appended.root.as_bytes()[..]);
        insert.bind(levels).bind(positions).bind(hashes).execute(conn).await?;
        *log = appended.frontier;
        Ok(())
    }
}

pub(super) struct ProbeJob(pub(super) EpochMs);

impl Job for ProbeJob {
    type Output = ();

    async fn apply(&self, conn: &mut PgConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let sql = "INSERT INTO write_probe (id, at_ms) VALUES (1, $1)
             ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms";
        sqlx::query(sql).bind(instant(self.0)).execute(conn).await?;
        Ok(())
    }
}
