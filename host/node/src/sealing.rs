//! Secrets at rest: every secret in the node's file is sealed under the key-encryption key that the node was started with.
//!
//! The store has the check value of that key and opens under no other. Each secret is bound to its node, key and generation:
//! one that was altered, or moved to another row, does not open.

use crate::error::{NodeError, Stop};
use crate::node::{Transact, Transaction};
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::at_rest::{AtRestError, Kek, SecretId, open_share, rewrap, seal_share};
use gateway_seal::node_key::{NodeIdentity, NodeSecret};
use gateway_sqlite::Database;
use rand_core::{OsRng, RngCore as _};
use sqlx::{Row as _, SqliteConnection};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The node's key-encryption key, and the node that sealed secrets are bound to.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    kek: Arc<Kek>,
    node: String,
    index: u16,
}

/// The row of this node that a secret belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) key_id: &'a str,
    pub(crate) epoch: &'a str,
}

/// The place of the seed of the node's identity. No key has this id.
const IDENTITY: Slot<'static> = Slot { key_id: "identity", epoch: "" };

impl Sealing {
    pub(crate) fn new(kek: Arc<Kek>, participant: ParticipantIndex) -> Self {
        Self { kek, node: format!("node-{participant}"), index: participant.0 }
    }

    fn place<'a>(&'a self, slot: Slot<'a>) -> SecretId<'a> {
        SecretId { node: &self.node, key_id: slot.key_id, epoch: slot.epoch, index: self.index }
    }

    pub(crate) fn seal(&self, slot: Slot<'_>, secret: &[u8]) -> Result<Vec<u8>, NodeError> {
        seal_share(&self.kek, &self.place(slot), secret).map_err(refused)
    }

    pub(crate) fn open(&self, slot: Slot<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, NodeError> {
        open_share(&self.kek, &self.place(slot), sealed).map_err(refused)
    }

    /// Checks that the store is still sealed under this key. Run in the transaction that adds a secret, since [`Rewrap`] may
    /// have come first.
    pub(crate) async fn check(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let kept = Kept::load(conn).await?.ok_or(NOT_FOUNDED)?;
        Ok(kept.check(&self.kek)?)
    }

    fn identity(&self, kept: &Kept) -> Result<NodeSecret, NodeError> {
        kept.check(&self.kek)?;
        let opened = self.open(IDENTITY, &kept.identity_seed)?;
        let mut seed = Zeroizing::new([0; 32]);
        if opened.len() != seed.len() {
            return Err(NodeError::unavailable("the node's store is damaged"));
        }
        seed.copy_from_slice(&opened);
        Ok(NodeSecret::from_seed(self.index, &seed))
    }
}

const NO_RANDOMNESS: &str = "the operating system gave no randomness";
const NOT_FOUNDED: NodeError = NodeError::unavailable("the node's store is damaged: it names no key");

/// The node's error. Its source names keys, never a secret.
fn refused(error: AtRestError) -> NodeError {
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

/// The row `node` of the store.
pub(crate) struct Kept {
    kek_check: Vec<u8>,
    identity_seed: Vec<u8>,
}

impl Kept {
    async fn load(conn: &mut SqliteConnection) -> Result<Option<Self>, Stop> {
        let sql = "SELECT kek_check, identity_seed FROM node";
        let Some(row) = sqlx::query(sql).fetch_optional(conn).await? else { return Ok(None) };
        Ok(Some(Self { kek_check: row.try_get(0)?, identity_seed: row.try_get(1)? }))
    }

    fn check(&self, kek: &Kek) -> Result<(), NodeError> {
        let check_value = self.kek_check.as_slice().try_into().map_err(NodeError::damaged)?;
        kek.verify(check_value)
            .map_err(|error| NodeError::caused_by("the node's store is sealed under another key", error))
    }
}

/// The node's identity. A store that is opened for the first time is bound to the key and gets a new identity.
pub(crate) async fn settle(database: &Database<()>, sealing: &Sealing) -> Result<NodeSecret, NodeError> {
    let kept = Kept::load(&mut *database.reader().acquire().await?).await?;
    let kept = match kept {
        Some(kept) => kept,
        None => database.write(Transaction(Found(sealing.clone()))).await??,
    };
    sealing.identity(&kept)
}

/// The identity in a store.
pub(crate) async fn kept_identity(
    conn: &mut SqliteConnection,
    sealing: &Sealing,
) -> Result<NodeIdentity, NodeError> {
    let kept = Kept::load(conn).await?.ok_or(NOT_FOUNDED)?;
    Ok(sealing.identity(&kept)?.identity().clone())
}

/// Binds an empty store to its key and gives it a fresh identity.
pub(crate) struct Found(pub(crate) Sealing);

impl Transact for Found {
    type Output = Kept;

    async fn run(&self, conn: &mut SqliteConnection) -> Result<Kept, Stop> {
        // A store with shares was bound before, and has lost that row.
        if sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM share)").fetch_one(&mut *conn).await? {
            return Err(NOT_FOUNDED.into());
        }
        let mut seed = Zeroizing::new([0; 32]);
        OsRng
            .try_fill_bytes(seed.as_mut_slice())
            .map_err(|error| NodeError::caused_by(NO_RANDOMNESS, error))?;
        let kek_check = self.0.kek.check_value().to_vec();
        let kept = Kept { kek_check, identity_seed: self.0.seal(IDENTITY, seed.as_slice())? };
        sqlx::query("INSERT INTO node (kek_check, identity_seed) VALUES (?1, ?2)")
            .bind(kept.kek_check.as_slice())
            .bind(kept.identity_seed.as_slice())
            .execute(conn)
            .await?;
        Ok(kept)
    }
}

/// Seals every secret of the store under another key: all of them, or none.
pub(crate) struct Rewrap {
    pub(crate) old: Sealing,
    pub(crate) new: Arc<Kek>,
}

impl Transact for Rewrap {
    type Output = ();

    async fn run(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let under_new = |slot, sealed: &[u8]| {
            rewrap(&self.old.kek, &self.new, &self.old.place(slot), sealed).map_err(refused)
        };
        let kept = Kept::load(&mut *conn).await?.ok_or(NOT_FOUNDED)?;
        let identity_seed = under_new(IDENTITY, &kept.identity_seed)?;
        let sql = "SELECT key_id, epoch, secret FROM share WHERE secret IS NOT NULL";
        let mut shares: Vec<(String, String, Vec<u8>)> = sqlx::query_as(sql).fetch_all(&mut *conn).await?;
        // Opens every row before it writes any: one that does not open stops the change.
        for (key_id, epoch, secret) in &mut shares {
            *secret = under_new(Slot { key_id, epoch }, secret)?;
        }
        sqlx::query("UPDATE node SET kek_check = ?1, identity_seed = ?2")
            .bind(self.new.check_value().as_slice())
            .bind(identity_seed)
            .execute(&mut *conn)
            .await?;
        for (key_id, epoch, secret) in shares {
            let sql = "UPDATE share SET secret = ?3 WHERE key_id = ?1 AND epoch = ?2";
            sqlx::query(sql).bind(key_id).bind(epoch).bind(secret).execute(&mut *conn).await?;
        }
        Ok(())
    }
}
