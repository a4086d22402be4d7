//! Shares by (key, epoch): staged → active → retired → erased.
//!
//! Secrets are wiped from this crate's own memory and sealed in the store ([`Sealing`]). SQLite keeps pages in memory and, until
//! a checkpoint, in its write-ahead log; deleted rows are overwritten. An older copy of the file, with the key-encryption key,
//! still has shares that were erased since.

use crate::error::{Code, NodeError, Rejection, Stop};
use crate::row::parse;
use crate::row_hash;
use crate::sealing::{Sealing, Slot};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::{EpochName, Hex32, KeyId, OperationId};
use gateway_domain::intent::KeyUse;
use gateway_domain::key::epoch_root;
use gateway_threshold::{KeyShare, PublicKeys};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use std::fmt;
use zeroize::Zeroizing;

/// One generation of a key as this node holds it, without its secret.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) epoch: EpochName,
    pub(crate) root: Hex32,
    /// [`PublicKeys`], encoded. Decoding costs a curve operation for each participant: see
    /// [`Generations`](crate::Generations).
    package: Vec<u8>,
}

impl Held {
    pub(crate) const fn new(epoch: EpochName, root: Hex32, package: Vec<u8>) -> Self {
        Self { epoch, root, package }
    }

    /// From the columns `epoch`, `epoch_root` and `public_keys`; none when they are null.
    pub(crate) fn read(row: &SqliteRow) -> Result<Option<Self>, Stop> {
        let Some(epoch) = row.try_get::<Option<String>, _>("epoch")? else { return Ok(None) };
        let (root, package) = (parse(row.try_get("epoch_root")?)?, row.try_get("public_keys")?);
        Ok(Some(Self { epoch: EpochName(epoch), root, package }))
    }

    /// Decodes the public keys. They must match the root.
    pub(crate) fn decode(&self, key_id: KeyId) -> Result<PublicKeys, NodeError> {
        if epoch_root(key_id, &self.epoch, &hex::encode(&self.package))? != self.root {
            return Err(NodeError::unavailable(
                "the node's store is damaged: public keys do not match their root",
            ));
        }
        PublicKeys::from_bytes(&self.package).map_err(NodeError::damaged)
    }
}

/// A share to be staged.
pub(crate) struct Fresh {
    pub(crate) key_id: KeyId,
    pub(crate) epoch: EpochName,
    pub(crate) operation_id: OperationId,
    pub(crate) attempt: u32,
    pub(crate) root: Hex32,
    pub(crate) public_keys: Vec<u8>,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh")
            .field("key_id", &self.key_id)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The generation that this attempt staged, if it is not promoted yet.
pub(crate) async fn staged(
    conn: &mut SqliteConnection,
    operation_id: OperationId,
    attempt: u32,
) -> Result<Option<Held>, Stop> {
    let sql = "SELECT epoch, epoch_root, public_keys FROM share \
               WHERE operation_id = ?1 AND attempt = ?2 AND state = 'staged'";
    let row = sqlx::query(sql).bind(operation_id.to_string()).bind(attempt).fetch_optional(conn).await?;
    row.map_or(Ok(None), |row| Held::read(&row))
}

/// A generation that is or was in force here.
pub(crate) async fn generation(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    epoch: &EpochName,
) -> Result<Option<Held>, Stop> {
    let sql = "SELECT epoch, epoch_root, public_keys FROM share \
               WHERE key_id = ?1 AND epoch = ?2 AND state <> 'staged'";
    let row = sqlx::query(sql).bind(key_id.to_string()).bind(&epoch.0).fetch_optional(conn).await?;
    row.map_or(Ok(None), |row| Held::read(&row))
}

/// Whether any generation of the key was ever in force here.
pub(crate) async fn is_known(conn: &mut SqliteConnection, key_id: KeyId) -> Result<bool, Stop> {
    let sql = "SELECT EXISTS (SELECT 1 FROM share WHERE key_id = ?1 AND state <> 'staged')";
    Ok(sqlx::query_scalar(sql).bind(key_id.to_string()).fetch_one(conn).await?)
}

/// The secret share of the active generation.
pub(crate) async fn secret(
    conn: &mut SqliteConnection,
    sealing: &Sealing,
    key_id: KeyId,
    epoch: &EpochName,
    keys: &PublicKeys,
) -> Result<KeyShare, Stop> {
    let sql = "SELECT secret FROM share WHERE key_id = ?1 AND epoch = ?2 AND state = 'active'";
    let key = key_id.to_string();
    let sealed: Option<Vec<u8>> =
        sqlx::query_scalar(sql).bind(&key).bind(&epoch.0).fetch_optional(conn).await?;
    let bytes = sealing.open(Slot { key_id: &key, epoch: &epoch.0 }, &sealed.ok_or(NO_SHARE)?)?;
    let share = KeyShare::from_secret_bytes(keys.profile(), &bytes).map_err(NodeError::damaged)?;
    share.check_belongs(keys).map_err(NodeError::damaged)?;
    Ok(share)
}

/// The error of a node that was never a holder of the key, or lost its share.
pub(crate) const NO_SHARE: NodeError = NodeError::unavailable("the node holds no share of the key");

/// Stores a share, sealed, until its generation is promoted or discarded. It replaces the share of an earlier attempt of the
/// same operation.
pub(crate) async fn stage(conn: &mut SqliteConnection, sealing: &Sealing, fresh: &Fresh) -> Result<(), Stop> {
    let conflict = |detail: &str| Stop::from(Rejection::new(Code::EpochConflict, detail));
    let sql = "SELECT state, operation_id, attempt FROM share WHERE key_id = ?1 AND epoch = ?2";
    let (key_id, epoch) = (fresh.key_id.to_string(), &fresh.epoch.0);
    let row = sqlx::query(sql).bind(&key_id).bind(epoch).fetch_optional(&mut *conn).await?;
    if let Some(row) = row {
        let (state, by, attempt): (String, String, u32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if state != "staged" {
            return Err(conflict("the key has already had this epoch"));
        }
        if by != fresh.operation_id.to_string() {
            return Err(conflict("another operation staged this epoch of the key"));
        }
        if attempt >= fresh.attempt {
            return Err(Rejection::new(Code::AttemptSuperseded, "a later attempt staged its share").into());
        }
    }
    sealing.check(&mut *conn).await?;
    let sealed = sealing.seal(Slot { key_id: &key_id, epoch }, &fresh.secret)?;
    sqlx::query("DELETE FROM share WHERE key_id = ?1 AND epoch = ?2")
        .bind(&key_id)
        .bind(epoch)
        .execute(&mut *conn)
        .await?;
    let (operation_id, root) = (fresh.operation_id.to_string(), fresh.root.to_string());
    let row = row_hash::Share {
        key_id: &key_id,
        epoch,
        state: "staged",
        operation_id: &operation_id,
        attempt: fresh.attempt,
        epoch_root: &root,
    };
    sqlx::query(
        "INSERT INTO share \
         (key_id, epoch, state, operation_id, attempt, epoch_root, public_keys, secret, row_hash) \
         VALUES (?1, ?2, 'staged', ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .bind(&key_id)
    .bind(epoch)
    .bind(&operation_id)
    .bind(fresh.attempt)
    .bind(&root)
    .bind(fresh.public_keys.as_slice())
    .bind(sealed)
    .bind(row.hash()?.to_string())
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes a staged generation active. The generation that was active is retired and no longer signs.
pub(crate) async fn promote(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    epoch: &EpochName,
) -> Result<(), Stop> {
    change(conn, key_id, ("active", "retired"), |_, _| true).await?;
    change(conn, key_id, ("staged", "active"), |name, _| name == epoch.0).await
}

/// Moves the generations of a key that `is_meant` selects, by epoch name and root, from one state to another. An erased share
/// loses its secret.
async fn change(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    (from, to): (&str, &str),
    is_meant: impl Fn(&str, &str) -> bool,
) -> Result<(), Stop> {
    let key_id = key_id.to_string();
    let sql = "SELECT epoch, operation_id, attempt, epoch_root FROM share WHERE key_id = ?1 AND state = ?2";
    let rows: Vec<(String, String, u32, String)> =
        sqlx::query_as(sql).bind(&key_id).bind(from).fetch_all(&mut *conn).await?;
    for (epoch, operation_id, attempt, epoch_root) in rows {
        if !is_meant(&epoch, &epoch_root) {
            continue;
        }
        let row = row_hash::Share {
            key_id: &key_id,
            epoch: &epoch,
            state: to,
            operation_id: &operation_id,
            attempt,
            epoch_root: &epoch_root,
        };
        let sql = "UPDATE share SET state = ?3, row_hash = ?4, secret = iif(?3 = 'erased', NULL, secret) \
                   WHERE key_id = ?1 AND epoch = ?2";
        let query = sqlx::query(sql).bind(&key_id).bind(&epoch).bind(to);
        query.bind(row.hash()?.to_string()).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Retires this generation, if it is active. The call may be late, so a generation that replaced it is left alone.
pub(crate) async fn retire(conn: &mut SqliteConnection, key_id: KeyId, root: Hex32) -> Result<(), Stop> {
    let root = root.to_string();
    change(conn, key_id, ("active", "retired"), |_, found| found == root).await
}

/// Erases the secret of this generation, if it is retired. The row stays.
pub(crate) async fn erase_retired(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    root: Hex32,
) -> Result<(), Stop> {
    let root = root.to_string();
    change(conn, key_id, ("retired", "erased"), |_, found| found == root).await
}

/// Deletes the shares that an operation staged.
pub(crate) async fn forget(conn: &mut SqliteConnection, operation_id: OperationId) -> Result<(), Stop> {
    sqlx::query("DELETE FROM share WHERE operation_id = ?1 AND state = 'staged'")
        .bind(operation_id.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// The decision states the family that this node has on record for the key.
pub(crate) fn check_use(decision: &AdmissionDecision, kept: Option<KeyUse>) -> Result<(), Rejection> {
    if kept.is_none_or(|kept| decision.serves == Some(kept)) {
        return Ok(());
    }
    Err(Rejection::new(Code::AdmissionRefused, "the key serves the other family"))
}

/// Records the family that a key serves. It never changes: callers run [`check_use`] first.
pub(crate) async fn keep_use(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    serves: Option<KeyUse>,
) -> Result<(), Stop> {
    let Some(serves) = serves else { return Ok(()) };
    let (key_id, serves) = (key_id.to_string(), serves.as_str());
    let row_hash = row_hash::key_use(&key_id, serves)?.to_string();
    let sql =
        "INSERT INTO key_use (key_id, serves, row_hash) VALUES (?1, ?2, ?3) ON CONFLICT (key_id) DO NOTHING";
    sqlx::query(sql).bind(key_id).bind(serves).bind(row_hash).execute(conn).await?;
    Ok(())
}

/// Parses the column `serves`.
pub(crate) fn parse_use(text: &str) -> Result<KeyUse, NodeError> {
    let known = [KeyUse::Payments, KeyUse::AssetActions].into_iter().find(|known| known.as_str() == text);
    known.ok_or(NodeError::unavailable("the node's store is damaged: a key's use is unknown"))
}
