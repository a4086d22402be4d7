//! Shares by key and epoch: staged, then active, retired and erased.
//!
//! Secrets are sealed in the store ([`Sealing`]), and this crate wipes its copies in memory. SQLite overwrites deleted rows in
//! the database file, but keeps pages in the write-ahead log until a checkpoint. A backup still has the sealed shares that were
//! erased after it was made.

use crate::error::{Code, NodeError, NodeRejection, Stop};
use crate::store::columns::{integer, parse_hash};
use crate::store::row_hash;
use crate::store::sealing::Sealing;
use gateway_domain::ids::{EpochName, Hex32, KeyId, OperationId};
use gateway_domain::key::epoch_root;
use gateway_domain::time::EpochMs;
use gateway_sqlite::{Connection, Row};
use gateway_threshold::{KeyShare, PublicKeys};
use std::fmt;
use zeroize::Zeroizing;

/// The columns that a [`Generation`] is read from.
const COLUMNS: &str = "epoch, epoch_root, public_keys, made_at_ms, used_since_ms";

/// The public part of one generation of a key.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) epoch: EpochName,
    pub(crate) root: Hex32,
    /// [`PublicKeys`], encoded. [`Generations`](crate::Generations) caches decoded ones.
    package: Vec<u8>,
    /// When this node staged its share, and when it began to use it; `None` for one of which it does not use a share.
    pub(crate) used: Option<(EpochMs, EpochMs)>,
}

impl Generation {
    pub(crate) const fn new(epoch: EpochName, root: Hex32, package: Vec<u8>) -> Self {
        Self { epoch, root, package, used: None }
    }

    /// Reads the columns of [`COLUMNS`]. `None` when they are null.
    pub(crate) fn read(row: &Row) -> Result<Option<Self>, Stop> {
        let Some(epoch) = row.get("epoch")? else { return Ok(None) };
        let (root, package) = (parse_hash(row.get::<&str>("epoch_root")?)?, row.get("public_keys")?);
        let time = |at: i64| EpochMs(at.unsigned_abs());
        let (made, used): (i64, Option<i64>) = (row.get("made_at_ms")?, row.get("used_since_ms")?);
        let used = used.map(|used| (time(made), time(used)));
        Ok(Some(Self { epoch: EpochName(epoch), root, package, used }))
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
    pub(crate) made_at: EpochMs,
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
    conn: &mut Connection,
    operation_id: OperationId,
    attempt: u32,
) -> Result<Option<Generation>, Stop> {
    let sql =
        format!("SELECT {COLUMNS} FROM share WHERE operation_id = ?1 AND attempt = ?2 AND state = 'staged'");
    let row = conn.row(&sql, &[operation_id.to_string().into(), attempt.into()]).await?;
    row.as_ref().map_or(Ok(None), Generation::read)
}

/// The attempt that staged the operation's share, unless it was promoted or discarded since.
pub(crate) async fn staged_attempt(
    conn: &mut Connection,
    operation_id: OperationId,
) -> Result<Option<u32>, Stop> {
    let sql = "SELECT max(attempt) FROM share WHERE operation_id = ?1 AND state = 'staged'";
    Ok(conn.value(sql, &[operation_id.to_string().into()]).await?)
}

/// Loads a generation that this node has promoted: active, retired or erased.
pub(crate) async fn load_promoted(
    conn: &mut Connection,
    key_id: KeyId,
    epoch: &EpochName,
) -> Result<Option<Generation>, Stop> {
    let sql = format!("SELECT {COLUMNS} FROM share WHERE key_id = ?1 AND epoch = ?2 AND state <> 'staged'");
    let row = conn.row(&sql, &[key_id.to_string().into(), epoch.0.as_str().into()]).await?;
    row.as_ref().map_or(Ok(None), Generation::read)
}

/// Whether this node ever promoted a generation of the key.
pub(crate) async fn is_known(conn: &mut Connection, key_id: KeyId) -> Result<bool, Stop> {
    let sql = "SELECT EXISTS (SELECT 1 FROM share WHERE key_id = ?1 AND state <> 'staged')";
    Ok(conn.value(sql, &[key_id.to_string().into()]).await?)
}

/// Loads and opens the share of this epoch, which must be active, and checks that it belongs to these public keys.
pub(crate) async fn load_share(
    conn: &mut Connection,
    sealing: &Sealing,
    key_id: KeyId,
    epoch: &EpochName,
    keys: &PublicKeys,
) -> Result<KeyShare, Stop> {
    let sql = "SELECT secret FROM share WHERE key_id = ?1 AND epoch = ?2 AND state = 'active'";
    let key = key_id.to_string();
    let row = conn.row(sql, &[key.as_str().into(), epoch.0.as_str().into()]).await?;
    let sealed: Vec<u8> = row.ok_or(NodeError::NO_SHARE)?.get("secret")?;
    let bytes = sealing.open((&key, &epoch.0), &sealed)?;
    let share = KeyShare::from_secret_bytes(keys.profile(), &bytes).map_err(NodeError::damaged)?;
    share.check_belongs(keys).map_err(NodeError::damaged)?;
    Ok(share)
}

/// The generation that the node signs with; `None` if it has none.
pub(crate) async fn load_active(conn: &mut Connection, key_id: KeyId) -> Result<Option<Generation>, Stop> {
    let sql = format!("SELECT {COLUMNS} FROM share WHERE key_id = ?1 AND state = 'active'");
    let row = conn.row(&sql, &[key_id.to_string().into()]).await?;
    row.as_ref().map_or(Ok(None), Generation::read)
}

/// Refuses to make shares of a key while another operation's are staged here: nodes could be made to promote one operation's, and
/// others the other's, so that neither generation has enough. Shares of the generation that is to be replaced do not prevent it:
/// the others have promoted them.
pub(crate) async fn check_staged(
    conn: &mut Connection,
    key_id: KeyId,
    operation_id: OperationId,
    replaced: Hex32,
) -> Result<(), Stop> {
    let sql = "SELECT operation_id FROM share \
               WHERE key_id = ?1 AND state = 'staged' AND operation_id <> ?2 AND epoch_root <> ?3";
    let bound = [key_id.to_string().into(), operation_id.to_string().into(), replaced.to_string().into()];
    match conn.row(sql, &bound).await? {
        None => Ok(()),
        Some(row) => {
            let other: String = row.get("operation_id")?;
            let detail =
                format!("operation `{other}` has staged a share of the key here: complete or abort it first");
            Err(NodeError::Unavailable { detail: detail.into(), source: None }.into())
        }
    }
}

/// Seals a share and stores it as staged, replacing the share of an earlier attempt of the same operation.
pub(crate) async fn stage(
    conn: &mut Connection,
    sealing: &Sealing,
    new_share: &NewShare,
) -> Result<(), Stop> {
    let conflict = |detail: &str| Stop::from(NodeRejection::new(Code::EpochConflict, detail));
    let sql = "SELECT state, operation_id, attempt FROM share WHERE key_id = ?1 AND epoch = ?2";
    let (key_id, epoch) = (new_share.key_id.to_string(), new_share.epoch.0.as_str());
    if let Some(row) = conn.row(sql, &[key_id.as_str().into(), epoch.into()]).await? {
        if row.get::<String>("state")? != "staged" {
            return Err(conflict("the key has already had this epoch"));
        }
        if row.get::<String>("operation_id")? != new_share.operation_id.to_string() {
            return Err(conflict("another operation staged this epoch of the key"));
        }
        if row.get::<u32>("attempt")? >= new_share.attempt {
            return Err(
                NodeRejection::new(Code::AttemptSuperseded, "a later attempt staged its share").into()
            );
        }
    }
    sealing.check(conn).await?;
    let sealed = sealing.seal((&key_id, epoch), &new_share.secret)?;
    let (operation_id, root) = (new_share.operation_id.to_string(), new_share.root.to_string());
    let row = row_hash::Share {
        key_id: &key_id,
        epoch,
        state: "staged",
        operation_id: &operation_id,
        attempt: new_share.attempt,
        made_at_ms: integer(new_share.made_at.0),
        used_since_ms: None,
        epoch_root: &root,
    };
    let sql = "DELETE FROM share WHERE key_id = ?1 AND epoch = ?2;\n\
               INSERT INTO share \
               (key_id, epoch, state, operation_id, attempt, made_at_ms, epoch_root, public_keys, secret, row_hash) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let bound = [
        row.key_id.into(),
        row.epoch.into(),
        row.state.into(),
        row.operation_id.into(),
        row.attempt.into(),
        row.made_at_ms.into(),
        row.epoch_root.into(),
        new_share.public_keys.as_slice().into(),
        sealed.as_slice().into(),
        row.hash()?.to_string().into(),
    ];
    Ok(conn.run(sql, &bound).await?)
}

/// Makes a staged generation active, and retires the one that was active. Shares that other operations staged before are deleted:
/// they can no longer be promoted.
pub(crate) async fn promote(
    conn: &mut Connection,
    key_id: KeyId,
    epoch: &EpochName,
    now: EpochMs,
) -> Result<(), Stop> {
    change_state(conn, key_id, ("active", "retired"), None, |_, _| true).await?;
    change_state(conn, key_id, ("staged", "active"), Some(now), |name, _| name == epoch.0).await?;
    let sql = "DELETE FROM share WHERE key_id = ?1 AND state = 'staged'";
    Ok(conn.run(sql, &[key_id.to_string().into()]).await?)
}

/// Changes the state of a key's generations. `is_selected` gets the epoch name and root of each generation in state `from`. The
/// state `erased` also deletes the secret. `used_since` is of a generation that becomes active.
async fn change_state(
    conn: &mut Connection,
    key_id: KeyId,
    (from, to): (&str, &str),
    used_since: Option<EpochMs>,
    is_selected: impl Fn(&str, &str) -> bool,
) -> Result<(), Stop> {
    let key_id = key_id.to_string();
    let sql = "SELECT epoch, operation_id, attempt, made_at_ms, used_since_ms, epoch_root FROM share \
               WHERE key_id = ?1 AND state = ?2";
    for found in conn.rows(sql, &[key_id.as_str().into(), from.into()]).await? {
        let row = row_hash::Share {
            key_id: &key_id,
            epoch: found.get("epoch")?,
            state: to,
            operation_id: found.get("operation_id")?,
            attempt: found.get("attempt")?,
            made_at_ms: found.get("made_at_ms")?,
            used_since_ms: used_since
                .map_or_else(|| found.get("used_since_ms"), |at| Ok(Some(integer(at.0))))?,
            epoch_root: found.get("epoch_root")?,
        };
        if !is_selected(row.epoch, row.epoch_root) {
            continue;
        }
        let sql = "UPDATE share SET state = ?3, row_hash = ?4, used_since_ms = ?5, \
                   secret = iif(?3 = 'erased', NULL, secret) WHERE key_id = ?1 AND epoch = ?2";
        let bound = [
            row.key_id.into(),
            row.epoch.into(),
            to.into(),
            row.hash()?.to_string().into(),
            row.used_since_ms.into(),
        ];
        conn.run(sql, &bound).await?;
    }
    Ok(())
}

/// Retires this generation if it is active. A later active generation does not change.
pub(crate) async fn retire(conn: &mut Connection, key_id: KeyId, root: Hex32) -> Result<(), Stop> {
    let root = root.to_string();
    change_state(conn, key_id, ("active", "retired"), None, |_, found| found == root).await
}

/// Deletes the secrets of all generations of the key that are retired. The rows stay, with their public keys.
pub(crate) async fn erase_retired(conn: &mut Connection, key_id: KeyId) -> Result<(), Stop> {
    change_state(conn, key_id, ("retired", "erased"), None, |_, _| true).await
}

/// Deletes the share that an operation staged.
pub(crate) async fn delete_staged(conn: &mut Connection, operation_id: OperationId) -> Result<(), Stop> {
    let sql = "DELETE FROM share WHERE operation_id = ?1 AND state = 'staged'";
    Ok(conn.run(sql, &[operation_id.to_string().into()]).await?)
}
