//! The tables `bundle` and `bundle_file`: the policy bundles that the node keeps, with the high-water mark ([`Ranked`]).

use crate::error::{Code, NodeError, NodeRejection, Stop};
use crate::store::columns::{integer, parse_hash};
use crate::store::log::LogState;
use crate::store::row_hash;
use crate::store::transaction::Transact;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::limits::BUNDLES_TRUSTED_MAX;
use gateway_policy::{Ranked, Standing, Superseded};
use gateway_sqlite::Connection;

/// A kept bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) sequence: u64,
    offered_at_ms: i64,
    /// When an operation was first admitted under it.
    active_at: Option<EpochMs>,
    /// The names of its files, one a line.
    files: String,
}

impl Kept {
    const fn ranked(&self, hash: Hex32) -> Ranked {
        Ranked { hash, sequence: self.sequence, active_at: self.active_at }
    }
}

/// Checks the bundle's sequence in the transaction of an admission. See [`Ranked::check`].
pub(crate) async fn check_standing(
    conn: &mut Connection,
    hash: Hex32,
    is_pinned: bool,
    now: EpochMs,
) -> Result<(Standing, Kept), Stop> {
    let sql = "SELECT bundle_hash, sequence, offered_at_ms, active_at_ms, files FROM bundle \
               WHERE bundle_hash = ?1 OR sequence = (SELECT max(sequence) FROM bundle WHERE active_at_ms IS NOT NULL)";
    let (mut own, mut mark) = (None, None);
    for row in conn.rows(sql, &[hash.to_string().into()]).await? {
        let active_at = row.get::<Option<i64>>("active_at_ms")?.map(|at| EpochMs(at.unsigned_abs()));
        let sequence = row.get::<i64>("sequence")?.unsigned_abs();
        let (offered_at_ms, files) = (row.get("offered_at_ms")?, row.get("files")?);
        let kept = Kept { sequence, offered_at_ms, active_at, files };
        let found = parse_hash(row.get::<&str>("bundle_hash")?)?;
        if found == hash {
            own = Some(kept.clone());
        }
        let is_higher = mark.as_ref().is_none_or(|(_, mark): &(Hex32, Kept)| kept.sequence > mark.sequence);
        if active_at.is_some() && is_higher {
            mark = Some((found, kept));
        }
    }
    let own = own.ok_or(NodeError::BundleUnknown { bundle_hash: hash })?;
    let mark = mark.map(|(hash, kept)| kept.ranked(hash));
    let superseded = |error: Superseded| NodeRejection::new(Code::BundleSuperseded, error.to_string());
    Ok((own.ranked(hash).check(mark, is_pinned, now).map_err(superseded)?, own))
}

/// Records that the bundle admits its first operation.
pub(crate) async fn activate(
    conn: &mut Connection,
    hash: Hex32,
    kept: &Kept,
    now: EpochMs,
) -> Result<(), Stop> {
    let hash = hash.to_string();
    let row = row_hash::Bundle {
        bundle_hash: &hash,
        sequence: integer(kept.sequence),
        offered_at_ms: kept.offered_at_ms,
        active_at_ms: Some(integer(now.0)),
        files: &kept.files,
    };
    let sql = "UPDATE bundle SET active_at_ms = ?2, row_hash = ?3 WHERE bundle_hash = ?1";
    let bound = [row.bundle_hash.into(), row.active_at_ms.into(), row.hash()?.to_string().into()];
    Ok(conn.run(sql, &bound).await?)
}

pub(crate) async fn load_files(
    conn: &mut Connection,
    hash: Hex32,
) -> Result<Vec<(String, Vec<u8>)>, sqlx::Error> {
    let sql = "SELECT name, bytes FROM bundle_file WHERE bundle_hash = ?1 ORDER BY name";
    let rows = conn.rows(sql, &[hash.to_string().into()]).await?;
    rows.iter().map(|row| Ok((row.get("name")?, row.get("bytes")?))).collect()
}

/// Stores a verified bundle, or its new signatures, and removes the bundles that were offered longest ago, but never the active one.
/// Writes nothing if it is stored already.
pub(crate) struct StoreBundle {
    pub(crate) hash: Hex32,
    pub(crate) sequence: u64,
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) now: EpochMs,
}

impl Transact for StoreBundle {
    type Output = ();

    async fn run(&self, conn: &mut Connection, _: &mut LogState) -> Result<(), Stop> {
        let hash = self.hash.to_string();
        let row_hashes = self.row_hashes(&hash)?;
        let sql = "SELECT sequence, active_at_ms FROM bundle WHERE bundle_hash = ?1";
        let offered = integer(self.sequence);
        let (sequence, active_at_ms) = match conn.row(sql, &[hash.as_str().into()]).await? {
            Some(known) if known.get::<i64>("sequence")? >= offered => {
                let sql = "SELECT name, row_hash FROM bundle_file WHERE bundle_hash = ?1 ORDER BY name";
                let rows = conn.rows(sql, &[hash.as_str().into()]).await?;
                let stored = rows.iter().map(|row| Ok((row.get("name")?, row.get("row_hash")?)));
                if stored.collect::<Result<Vec<_>, sqlx::Error>>()? == row_hashes {
                    return Ok(());
                }
                (known.get("sequence")?, known.get("active_at_ms")?)
            }
            // With a new activation record, the bundle is active again from its next admission on.
            Some(_) | None => (offered, None),
        };
        let offered_at_ms = integer(self.now.0);
        let names: Vec<_> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let files = &names.join("\n");
        let row = row_hash::Bundle { bundle_hash: &hash, sequence, offered_at_ms, active_at_ms, files };
        let sql = "INSERT OR REPLACE INTO bundle \
                   (bundle_hash, sequence, offered_at_ms, active_at_ms, files, row_hash) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let bound = [
            row.bundle_hash.into(),
            row.sequence.into(),
            row.offered_at_ms.into(),
            row.active_at_ms.into(),
            row.files.into(),
            row.hash()?.to_string().into(),
        ];
        conn.run(sql, &bound).await?;
        self.write_files(conn, &hash, row_hashes).await?;
        remove_old(conn).await
    }
}

impl StoreBundle {
    /// The names of the files, ascending, each with the hash of its row.
    fn row_hashes(&self, hash: &str) -> Result<Vec<(String, String)>, CanonicalError> {
        let row_hash = |(name, bytes): &(String, Vec<u8>)| {
            Ok((name.clone(), row_hash::bundle_file(hash, name, bytes)?.to_string()))
        };
        self.files.iter().map(row_hash).collect()
    }

    async fn write_files(
        &self,
        conn: &mut Connection,
        hash: &str,
        row_hashes: Vec<(String, String)>,
    ) -> Result<(), Stop> {
        conn.run("DELETE FROM bundle_file WHERE bundle_hash = ?1", &[hash.into()]).await?;
        for ((name, bytes), (_, row_hash)) in self.files.iter().zip(row_hashes) {
            let sql = "INSERT INTO bundle_file (bundle_hash, name, bytes, row_hash) VALUES (?1, ?2, ?3, ?4)";
            let bound = [hash.into(), name.as_str().into(), bytes.as_slice().into(), row_hash.into()];
            conn.run(sql, &bound).await?;
        }
        Ok(())
    }
}

/// Keeps the bundles that were offered last, and the active one.
async fn remove_old(conn: &mut Connection) -> Result<(), Stop> {
    let n_max = i64::try_from(BUNDLES_TRUSTED_MAX).unwrap_or(i64::MAX);
    let sql = "DELETE FROM bundle WHERE bundle_hash NOT IN \
               (SELECT bundle_hash FROM bundle ORDER BY offered_at_ms DESC LIMIT ?1) \
               AND sequence IS NOT (SELECT max(sequence) FROM bundle WHERE active_at_ms IS NOT NULL);\n\
               DELETE FROM bundle_file WHERE bundle_hash NOT IN (SELECT bundle_hash FROM bundle)";
    Ok(conn.run(sql, &[n_max.into()]).await?)
}
