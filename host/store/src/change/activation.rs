//! Stores an activation, after comparing it with the high-water mark in the same transaction.

use crate::change::script::Script;
use crate::change::write::Write;
use crate::record::encode::policies::{ActivationRow, BundleRows, LAST_ACTIVATION, Place};
use crate::record::frontier::LogFrontier;
use crate::sql::connection::Connection;
use crate::sql::row::blob;
use gateway_domain::ids::Hex32;
use gateway_engine::ports::Activated;

pub(crate) struct ActivationWrite {
    pub(crate) activation: ActivationRow,
    pub(crate) bundle: BundleRows,
}

impl Write for ActivationWrite {
    type Output = Activated;

    async fn run<C: Connection>(
        &self,
        conn: &mut C,
        log: &mut LogFrontier,
    ) -> Result<Activated, sqlx::Error> {
        let last = conn.rows(LAST_ACTIVATION, &[]).await?;
        match Place::of(&self.activation, last.first())? {
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

impl ActivationWrite {
    /// Replaces the bundle's files: its hash covers all but the signatures, which may have been added or removed.
    async fn store_bundle<C: Connection>(&self, conn: &mut C) -> Result<(), sqlx::Error> {
        let BundleRows { bundle_hash, bundle, files } = &self.bundle;
        let mut script = Script::new(conn.statements());
        let end =
            " ON CONFLICT (bundle_hash) DO UPDATE SET row_hash = excluded.row_hash RETURNING bundle_hash";
        script.insert_all("policy_bundles", [bundle.clone()], end);
        let hash = script.bind(blob(*bundle_hash));
        script.add(format!("DELETE FROM policy_bundle_files WHERE bundle_hash = {hash}"));
        script.run(conn).await?;
        if files.is_empty() {
            return Ok(());
        }
        let mut script = Script::new(conn.statements());
        script.insert_all("policy_bundle_files", files.iter().cloned(), " RETURNING name");
        script.run(conn).await.map(drop)
    }

    /// Appends the activation as the log's next entry.
    async fn append<C: Connection>(
        &self,
        conn: &mut C,
        log: &mut LogFrontier,
        previous: Hex32,
    ) -> Result<(), sqlx::Error> {
        let row_hash = self.activation.hash(previous).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let appended = log.append([row_hash].into_iter());
        let mut columns = self.activation.columns();
        columns.extend([
            ("row_hash", blob(row_hash)),
            ("ledger_index", log.next_index().into()),
            ("ledger_root", blob(appended.root)),
        ]);
        let mut script = Script::new(conn.statements());
        script.insert_all("policy_activations", [columns], " RETURNING sequence");
        script.nodes(&appended);
        script.count("policy_activations", self.activation.sequence);
        script.run(conn).await?;
        *log = appended.frontier;
        Ok(())
    }
}
