//! Secrets at rest: every secret in the node's database is sealed under one key-encryption key.
//!
//! The database has the check value of that key, and the node does not open with another. Each secret is bound to its node,
//! key and epoch: one that was altered, or moved to another row, does not open.

use crate::error::{NodeError, Stop};
use crate::store::log::LogState;
use crate::store::transaction::{Transact, Transaction};
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::at_rest::{AtRestError, Kek, SecretId, open_share, rewrap, seal_share};
use gateway_seal::node_key::{NodeIdentity, NodeSecret};
use gateway_sqlite::{Connection, Database};
use rand_core::{OsRng, RngCore as _};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The node's key-encryption key, and the node to which sealed secrets are bound.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    kek: Arc<Kek>,
    node: String,
    index: u16,
}

/// Key id and epoch under which the seed of the node's identity is sealed. No key has this id.
const IDENTITY: (&str, &str) = ("identity", "");

impl Sealing {
    pub(crate) fn new(kek: Arc<Kek>, participant: ParticipantIndex) -> Self {
        Self { kek, node: format!("node-{participant}"), index: participant.0 }
    }

    fn secret_id<'a>(&'a self, (key_id, epoch): (&'a str, &'a str)) -> SecretId<'a> {
        SecretId { node: &self.node, key_id, epoch, index: self.index }
    }

    /// Seals the secret of this key id and epoch.
    pub(crate) fn seal(&self, key_and_epoch: (&str, &str), secret: &[u8]) -> Result<Vec<u8>, NodeError> {
        seal_share(&self.kek, &self.secret_id(key_and_epoch), secret).map_err(unusable_secret)
    }

    /// Opens the secret of this key id and epoch.
    pub(crate) fn open(
        &self,
        key_and_epoch: (&str, &str),
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, NodeError> {
        open_share(&self.kek, &self.secret_id(key_and_epoch), sealed).map_err(unusable_secret)
    }

    /// Checks that the store is still sealed under this key. Runs in the transaction that adds a secret, because [`Rewrap`]
    /// may have run before it.
    pub(crate) async fn check(&self, conn: &mut Connection) -> Result<(), Stop> {
        let row = NodeRow::load(conn).await?.ok_or(NODE_ROW_MISSING)?;
        Ok(row.check_kek(&self.kek)?)
    }

    fn open_identity(&self, row: &NodeRow) -> Result<NodeSecret, NodeError> {
        row.check_kek(&self.kek)?;
        let opened = self.open(IDENTITY, &row.identity_seed)?;
        let mut seed = Zeroizing::new([0; 32]);
        if opened.len() != seed.len() {
            return Err(NodeError::unavailable("the node's store is damaged"));
        }
        seed.copy_from_slice(&opened);
        Ok(NodeSecret::from_seed(self.index, &seed))
    }
}

const NO_RANDOMNESS: &str = "the operating system gave no randomness";
const NODE_ROW_MISSING: NodeError =
    NodeError::unavailable("the node's store is damaged: the row with its identity is missing");

/// The error of a secret that cannot be sealed or opened. Its source contains ids of key-encryption keys, never a secret.
fn unusable_secret(error: AtRestError) -> NodeError {
    let detail = match error {
        AtRestError::WrongKek { .. } => "a secret of the node is sealed under another key",
        AtRestError::Malformed | AtRestError::Version(_) | AtRestError::AlteredOrMoved => {
            "a secret of the node was altered, or moved from another row"
        }
        AtRestError::Oversize(_) => "a secret of the node is too large",
        AtRestError::NoRandomness(_) => NO_RANDOMNESS,
    };
    NodeError::caused_by(detail, error)
}

/// The only row of the table `node`.
pub(crate) struct NodeRow {
    /// The check value of the key-encryption key.
    kek_check: Vec<u8>,
    /// The sealed seed of the node's identity.
    identity_seed: Vec<u8>,
}

impl NodeRow {
    async fn load(conn: &mut Connection) -> Result<Option<Self>, Stop> {
        let sql = "SELECT kek_check, identity_seed FROM node";
        let Some(row) = conn.row(sql, &[]).await? else { return Ok(None) };
        Ok(Some(Self { kek_check: row.get("kek_check")?, identity_seed: row.get("identity_seed")? }))
    }

    fn check_kek(&self, kek: &Kek) -> Result<(), NodeError> {
        let check_value = self.kek_check.as_slice().try_into().map_err(NodeError::damaged)?;
        kek.verify(check_value)
            .map_err(|error| NodeError::caused_by("the node's store is sealed under another key", error))
    }
}

/// Opens the node's identity. A new store is first bound to the key-encryption key and gets a new identity.
pub(crate) async fn open_or_create_identity(
    database: &Database<LogState>,
    sealing: &Sealing,
) -> Result<NodeSecret, NodeError> {
    let row = NodeRow::load(&mut database.readers().acquire().await?).await?;
    let row = match row {
        Some(row) => row,
        None => database.write(Transaction(CreateIdentity(sealing.clone()))).await??,
    };
    sealing.open_identity(&row)
}

/// Reads the public identity of a store that has one.
pub(crate) async fn load_identity(
    conn: &mut Connection,
    sealing: &Sealing,
) -> Result<NodeIdentity, NodeError> {
    Ok(load_secret(conn, sealing).await?.identity().clone())
}

/// Opens the identity of a store that has one.
pub(crate) async fn load_secret(conn: &mut Connection, sealing: &Sealing) -> Result<NodeSecret, NodeError> {
    let row = NodeRow::load(conn).await?.ok_or(NODE_ROW_MISSING)?;
    sealing.open_identity(&row)
}

/// Binds an empty store to its key-encryption key and gives it a fresh identity.
pub(crate) struct CreateIdentity(pub(crate) Sealing);

impl Transact for CreateIdentity {
    type Output = NodeRow;
    const IS_STEP: bool = false;

    async fn run(&self, conn: &mut Connection, _log: &mut LogState) -> Result<NodeRow, Stop> {
        // A store with shares was bound before and has lost its row.
        if conn.value("SELECT EXISTS (SELECT 1 FROM share)", &[]).await? {
            return Err(NODE_ROW_MISSING.into());
        }
        let mut seed = Zeroizing::new([0; 32]);
        OsRng
            .try_fill_bytes(seed.as_mut_slice())
            .map_err(|error| NodeError::caused_by(NO_RANDOMNESS, error))?;
        let kek_check = self.0.kek.check_value().to_vec();
        let row = NodeRow { kek_check, identity_seed: self.0.seal(IDENTITY, seed.as_slice())? };
        let sql = "INSERT INTO node (kek_check, identity_seed) VALUES (?1, ?2)";
        conn.run(sql, &[row.kek_check.as_slice().into(), row.identity_seed.as_slice().into()]).await?;
        Ok(row)
    }
}

/// Seals every secret of the store under another key-encryption key, in one transaction.
pub(crate) struct Rewrap {
    pub(crate) old: Sealing,
    pub(crate) new: Arc<Kek>,
}

impl Transact for Rewrap {
    type Output = ();
    const IS_STEP: bool = false;

    async fn run(&self, conn: &mut Connection, _log: &mut LogState) -> Result<(), Stop> {
        let rewrap = |key_and_epoch: (&str, &str), sealed: &[u8]| {
            let id = self.old.secret_id(key_and_epoch);
            rewrap(&self.old.kek, &self.new, &id, sealed).map_err(unusable_secret)
        };
        let row = NodeRow::load(&mut *conn).await?.ok_or(NODE_ROW_MISSING)?;
        let identity_seed = rewrap(IDENTITY, &row.identity_seed)?;
        let sql = "SELECT key_id, epoch, secret FROM share WHERE secret IS NOT NULL";
        let mut shares = Vec::new();
        // Rewraps every secret before the first write: one that does not open stops the change.
        for row in conn.rows(sql, &[]).await? {
            let (key_id, epoch): (String, String) = (row.get("key_id")?, row.get("epoch")?);
            let secret = rewrap((&key_id, &epoch), &row.get::<Vec<u8>>("secret")?)?;
            shares.push([key_id.into(), epoch.into(), secret.as_slice().into()]);
        }
        let sql = "UPDATE node SET kek_check = ?1, identity_seed = ?2";
        conn.run(sql, &[self.new.check_value().as_slice().into(), identity_seed.as_slice().into()]).await?;
        for share in shares {
            conn.run("UPDATE share SET secret = ?3 WHERE key_id = ?1 AND epoch = ?2", &share).await?;
        }
        Ok(())
    }
}
