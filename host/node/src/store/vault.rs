//! Shares by key and epoch: staged, then active, retired and erased.
//!
//! Secrets are sealed in the store ([`Sealing`]), and this crate wipes its copies in memory. SQLite overwrites deleted rows in
//! the database file, but keeps pages in the write-ahead log until a checkpoint. A backup still has the sealed shares that were
//! erased after it was made.

use crate::error::{Code, NodeError, NodeRejection, Stop};
use crate::store::columns::parse_hash;
use crate::store::row_hash;
use crate::store::sealing::Sealing;
use gateway_domain::ids::{EpochName, Hex32, KeyId, OperationId};
use gateway_domain::key::epoch_root;
use gateway_threshold::{KeyShare, PublicKeys};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use std::fmt;
use zeroize::Zeroizing;

/// The public part of one generation of a key.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) epoch: EpochName,
    pub(crate) root: Hex32,
    /// [`PublicKeys`], encoded. [`Generations`](crate::Generations) caches decoded ones.
    package: Vec<u8>,
}

impl Generation {
    pub(crate) const fn new(epoch: EpochName, root: Hex32, package: Vec<u8>) -> Self {
        Self { epoch, root, package }
    }

    /// Reads the columns `epoch`, `epoch_root` and `public_keys`. `None` when they are null.
    pub(crate) fn read(row: &SqliteRow) -> Result<Option<Self>, Stop> {
        let Some(epoch) = row.try_get::<Option<String>, _>("epoch")? else { return Ok(None) };
        let (root, package) = (parse_hash(row.try_get("epoch_root")?)?, row.try_get("public_keys")?);
        Ok(Some(Self { epoch: EpochName(epoch), root, package }))
    }

    /// Checks the public keys against the root, and decodes them.
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
pub(crate) struct NewShare {
    pub(crate) key_id: KeyId,
    pub(crate) epoch: EpochName,
    pub(crate) operation_id: OperationId,
    pub(crate) attempt: u32,
    pub(crate) root: Hex32,
    pub(crate) public_keys: Vec<u8>,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for NewShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewShare")
            .field("key_id", &self.key_id)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// Loads the generation that this attempt staged, unless it was promoted since.
pub(crate) async fn load_staged(
    conn: &mut SqliteConnection,
    operation_id: OperationId,
    attempt: u32,
) -> Result<Option<Generation>, Stop> {
    let sql = "SELECT epoch, epoch_root, public_keys FROM share \
               WHERE operation_id = ?1 AND attempt = ?2 AND state = 'staged'";
    let row = sqlx::query(sql).bind(operation_id.to_string()).bind(attempt).fetch_optional(conn).await?;
    row.map_or(Ok(None), |row| Generation::read(&row))
}

/// The attempt that staged the operation's share, unless it was promoted or discarded since.
pub(crate) async fn staged_attempt(
    conn: &mut SqliteConnection,
    operation_id: OperationId,
) -> Result<Option<u32>, Stop> {
    let sql = "SELECT max(attempt) FROM share WHERE operation_id = ?1 AND state = 'staged'";
    Ok(sqlx::query_scalar(sql).bind(operation_id.to_string()).fetch_one(conn).await?)
}

/// Loads a generation that this node has promoted: active, retired or erased.
pub(crate) async fn load_promoted(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    epoch: &EpochName,
) -> Result<Option<Generation>, Stop> {
    let sql = "SELECT epoch, epoch_root, public_keys FROM share \
               WHERE key_id = ?1 AND epoch = ?2 AND state <> 'staged'";
    let row = sqlx::query(sql).bind(key_id.to_string()).bind(&epoch.0).fetch_optional(conn).await?;
    row.map_or(Ok(None), |row| Generation::read(&row))
}

/// Whether this node ever promoted a generation of the key.
pub(crate) async fn is_known(conn: &mut SqliteConnection, key_id: KeyId) -> Result<bool, Stop> {
    let sql = "SELECT EXISTS (SELECT 1 FROM share WHERE key_id = ?1 AND state <> 'staged')";
    Ok(sqlx::query_scalar(sql).bind(key_id.to_string()).fetch_one(conn).await?)
}

/// Loads and opens the share of this epoch, which must be active, and checks that it belongs to these public keys.
pub(crate) async fn load_share(
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
    let bytes = sealing.open((&key, &epoch.0), &sealed.ok_or(NodeError::NO_SHARE)?)?;
    let share = KeyShare::from_secret_bytes(keys.profile(), &bytes).map_err(NodeError::damaged)?;
    share.check_belongs(keys).map_err(NodeError::damaged)?;
    Ok(share)
}

/// The generation that the node signs with; `None` if it has none.
pub(crate) async fn load_active(
    conn: &mut SqliteConnection,
    key_id: KeyId,
) -> Result<Option<Generation>, Stop> {
    let sql = "SELECT epoch, epoch_root, public_keys FROM share WHERE key_id = ?1 AND state = 'active'";
    let row = sqlx::query(sql).bind(key_id.to_string()).fetch_optional(conn).await?;
    row.as_ref().map_or(Ok(None), Generation::read)
}

/// Refuses to make shares of a key while another operation's are staged here: nodes could be made to promote one operation's, and
/// others the other's, so that neither generation has enough. Shares of the generation that is to be replaced do not prevent it:
/// the others have promoted them.
pub(crate) async fn check_staged(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    operation_id: OperationId,
    replaced: Hex32,
) -> Result<(), Stop> {
    let sql = "SELECT operation_id FROM share \
               WHERE key_id = ?1 AND state = 'staged' AND operation_id <> ?2 AND epoch_root <> ?3";
    let (key_id, own, replaced) = (key_id.to_string(), operation_id.to_string(), replaced.to_string());
    let query = sqlx::query_scalar(sql).bind(key_id).bind(own).bind(replaced);
    let found: Option<String> = query.fetch_optional(conn).await?;
    match found {
        None => Ok(()),
        Some(other) => {
            let detail =
                format!("operation `{other}` has staged a share of the key here: complete or abort it first");
            Err(NodeError::Unavailable { detail: detail.into(), source: None }.into())
        }
    }
}

/// Seals a share and stores it as staged, replacing the share of an earlier attempt of the same operation.
pub(crate) async fn stage(
    conn: &mut SqliteConnection,
    sealing: &Sealing,
    new_share: &NewShare,
) -> Result<(), Stop> {
    let conflict = |detail: &str| Stop::from(NodeRejection::new(Code::EpochConflict, detail));
    let sql = "SELECT state, operation_id, attempt FROM share WHERE key_id = ?1 AND epoch = ?2";
    let (key_id, epoch) = (new_share.key_id.to_string(), &new_share.epoch.0);
    let row = sqlx::query(sql).bind(&key_id).bind(epoch).fetch_optional(&mut *conn).await?;
    if let Some(row) = row {
        let (state, by, attempt): (String, String, u32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if state != "staged" {
            return Err(conflict("the key has already had this epoch"));
        }
        if by != new_share.operation_id.to_string() {
            return Err(conflict("another operation staged this epoch of the key"));
        }
        if attempt >= new_share.attempt {
            return Err(
                NodeRejection::new(Code::AttemptSuperseded, "a later attempt staged its share").into()
            );
        }
    }
    sealing.check(&mut *conn).await?;
    let sealed = sealing.seal((&key_id, epoch), &new_share.secret)?;
    sqlx::query("DELETE FROM share WHERE key_id = ?1 AND epoch = ?2")
        .bind(&key_id)
        .bind(epoch)
        .execute(&mut *conn)
        .await?;
    let (operation_id, root) = (new_share.operation_id.to_string(), new_share.root.to_string());
    let row = row_hash::Share {
        key_id: &key_id,
        epoch,
        state: "staged",
        operation_id: &operation_id,
        attempt: new_share.attempt,
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
    .bind(new_share.attempt)
    .bind(&root)
    .bind(new_share.public_keys.as_slice())
    .bind(sealed)
    .bind(row.hash()?.to_string())
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes a staged generation active, and retires the one that was active. Shares that other operations staged before are deleted:
/// they can no longer be promoted.
pub(crate) async fn promote(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    epoch: &EpochName,
) -> Result<(), Stop> {
    change_state(conn, key_id, ("active", "retired"), |_, _| true).await?;
    change_state(conn, key_id, ("staged", "active"), |name, _| name == epoch.0).await?;
    sqlx::query("DELETE FROM share WHERE key_id = ?1 AND state = 'staged'")
        .bind(key_id.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// Changes the state of a key's generations. `is_selected` gets the epoch name and root of each generation in state `from`. The
/// state `erased` also deletes the secret.
async fn change_state(
    conn: &mut SqliteConnection,
    key_id: KeyId,
    (from, to): (&str, &str),
    is_selected: impl Fn(&str, &str) -> bool,
) -> Result<(), Stop> {
    let key_id = key_id.to_string();
    let sql = "SELECT epoch, operation_id, attempt, epoch_root FROM share WHERE key_id = ?1 AND state = ?2";
    let rows: Vec<(String, String, u32, String)> =
        sqlx::query_as(sql).bind(&key_id).bind(from).fetch_all(&mut *conn).await?;
    for (epoch, operation_id, attempt, epoch_root) in rows {
        if !is_selected(&epoch, &epoch_root) {
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

/// Retires this generation if it is active. A later active generation does not change.
pub(crate) async fn retire(conn: &mut SqliteConnection, key_id: KeyId, root: Hex32) -> Result<(), Stop> {
    let root = root.to_string();
    change_state(conn, key_id, ("active", "retired"), |_, found| found == root).await
}

/// Deletes the secrets of all generations of the key that are retired. The rows stay, with their public keys.
pub(crate) async fn erase_retired(conn: &mut SqliteConnection, key_id: KeyId) -> Result<(), Stop> {
    change_state(conn, key_id, ("retired", "erased"), |_, _| true).await
}

/// Deletes the share that an operation staged.
pub(crate) async fn delete_staged(
    conn: &mut SqliteConnection,
    operation_id: OperationId,
) -> Result<(), Stop> {
    sqlx::query("DELETE FROM share WHERE operation_id = ?1 AND state = 'staged'")
        .bind(operation_id.to_string())
        .execute(conn)
        .await?;
    Ok(())
}
