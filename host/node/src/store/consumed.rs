//! The table `consumed`: the nonces that signed, with the package and the share that they produced.

use crate::error::{NodeError, Stop, attempt_superseded, epoch_conflict, out_of_order, session_consumed};
use crate::store::columns::hash;
use crate::store::log::LogState;
use crate::store::operation;
use crate::store::row_hash;
use crate::store::transaction::Transact;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::node_log::ReleasedShare;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{Chain, ReceiptStatement};
use gateway_domain::time::EpochMs;
use gateway_sqlite::Connection;
use gateway_threshold::Tweak;
use gateway_threshold::sign::SigningPackage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an attempt signed.
pub(crate) struct Used {
    pub(crate) package_hash: Hex32,
    /// The package as stored: see [`decode_package`].
    pub(crate) package: String,
    pub(crate) share: Vec<u8>,
}

/// The used nonces of one operation.
pub(crate) struct UsedNonces {
    /// What the requested attempt signed, if it did.
    pub(crate) of_attempt: Option<Used>,
    /// The highest attempt that signed, or 0.
    pub(crate) latest_attempt: u32,
}

impl UsedNonces {
    pub(crate) async fn load(conn: &mut Connection, id: OperationId, attempt: u32) -> Result<Self, Stop> {
        let sql = "SELECT (SELECT coalesce(max(attempt), 0) FROM consumed WHERE operation_id = ?1) AS latest, \
                   c.package_hash, c.package, c.share \
                   FROM (SELECT 1) LEFT JOIN consumed c ON c.operation_id = ?1 AND c.attempt = ?2";
        let row = conn.row(sql, &[id.to_string().into(), attempt.into()]).await?;
        let row = row.ok_or(sqlx::Error::RowNotFound)?;
        let of_attempt = match hash(&row, "package_hash")? {
            Some(package_hash) => {
                Some(Used { package_hash, package: row.get("package")?, share: row.get("share")? })
            }
            None => None,
        };
        Ok(Self { of_attempt, latest_attempt: row.get("latest")? })
    }
}

/// Marks nonces as used, stores what they signed, and appends the entry to the log. Its output is the share, and the position of
/// the entry: a share leaves the node only after this, or when it is read back from the store.
pub(crate) struct Consume {
    pub(crate) chain: Chain,
    /// The statement of the receipt.
    pub(crate) statement: ReceiptStatement,
    pub(crate) released: ReleasedShare,
    pub(crate) not_before_ms: EpochMs,
    pub(crate) epoch_root: Hex32,
    pub(crate) attempt: u32,
    /// See [`Terms`](crate::memory::sessions::Terms).
    pub(crate) completed_attempt: u32,
    pub(crate) commitment_hash: Hex32,
    pub(crate) package: String,
    pub(crate) share: Vec<u8>,
}

impl Transact for Consume {
    type Output = (Vec<u8>, u64);

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<Self::Output, Stop> {
        log.check_not_before(self.not_before_ms)?;
        self.check(conn).await?;
        let log_index = log.size();
        let entry = log.append_receipt(&self.statement, Some(self.released.clone()))?;
        let sql = "UPDATE operation SET stage = ?3, head = ?2 WHERE operation_id = ?1;\n\
                   INSERT INTO log_entry (log_index, operation_id, transition_hash, body, nodes) \
                   VALUES (?4, ?1, ?2, ?5, ?6);\n\
                   INSERT INTO consumed \
                   (operation_id, attempt, commitment_hash, package_hash, package, share, row_hash) \
                   VALUES (?1, ?7, ?8, ?9, ?10, ?11, ?12)";
        let operation_id = self.chain.operation_id.to_string();
        let (commitment_hash, package_hash) =
            (self.commitment_hash.to_string(), self.released.package_hash.to_string());
        let row = row_hash::Consumed {
            operation_id: &operation_id,
            attempt: self.attempt,
            commitment_hash: &commitment_hash,
            package_hash: &package_hash,
            package: &self.package,
            share: &hex::encode(&self.share),
        };
        let bound = [
            row.operation_id.into(),
            self.statement.transition_hash.to_string().into(),
            operation::stage_of(EffectStep::Execute).into(),
            entry.log_index.into(),
            entry.body.as_str().into(),
            entry.nodes.as_slice().into(),
            row.attempt.into(),
            row.commitment_hash.into(),
            row.package_hash.into(),
            row.package.into(),
            self.share.as_slice().into(),
            row.hash()?.to_string().into(),
        ];
        conn.run(sql, &bound).await?;
        Ok((self.share.clone(), log_index))
    }
}

impl Consume {
    /// Checks that the operation and the key's epoch still allow signing, that no attempt was completed since round one, that this
    /// one was not discarded, and that neither the nonces nor the attempt were used before.
    async fn check(&self, conn: &mut Connection) -> Result<(), Stop> {
        let sql = "SELECT (SELECT stage FROM operation WHERE operation_id = ?1), \
                   (SELECT epoch_root FROM share WHERE key_id = ?2 AND state = 'active'), \
                   (SELECT coalesce(max(attempt), 0) FROM consumed WHERE operation_id = ?1), \
                   EXISTS (SELECT 1 FROM consumed \
                           WHERE commitment_hash = ?3 OR (operation_id = ?1 AND attempt = ?4)), \
                   EXISTS (SELECT 1 FROM log_entry WHERE operation_id = ?1 AND transition_hash = ?5)";
        let discarded = self.chain.after_attempt_discard(self.attempt)?;
        let bound = [
            self.chain.operation_id.to_string().into(),
            self.released.key_id.to_string().into(),
            self.commitment_hash.to_string().into(),
            self.attempt.into(),
            discarded.to_string().into(),
        ];
        let row = conn.row(sql, &bound).await?.ok_or(sqlx::Error::RowNotFound)?;
        let stage: Option<String> = row.at(0)?;
        if !matches!(
            stage.as_deref().and_then(operation::step_of_stage),
            Some(EffectStep::PolicyReceipt | EffectStep::Execute)
        ) {
            return Err(out_of_order("the operation made another step during signing").into());
        }
        let root: Option<String> = row.at(1)?;
        if root.is_none_or(|root| root != self.epoch_root.to_string()) {
            return Err(epoch_conflict("the key changed its epoch between the rounds").into());
        }
        if row.at(3)? {
            return Err(session_consumed().into());
        }
        if row.at::<u32>(2)? != self.completed_attempt || row.at(4)? {
            return Err(attempt_superseded().into());
        }
        Ok(())
    }
}

/// A signing package as it is stored: JSON, bytes in hexadecimal.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPackage {
    /// The bytes that are signed.
    message: String,
    /// The commitments of the signers, by their index.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    commitments: BTreeMap<u16, String>,
    /// The tweak of the derived key; `null` without one.
    #[cfg_attr(feature = "openapi", schema(required))]
    tweak: Option<Hex32>,
}

pub(crate) fn encode_package(package: &SigningPackage) -> Result<String, NodeError> {
    let stored = StoredPackage {
        message: hex::encode(&package.message),
        commitments: package.commitments.iter().map(|(by, bytes)| (*by, hex::encode(bytes))).collect(),
        tweak: package.tweak.map(|tweak| Hex32::new(*tweak.as_bytes())),
    };
    serde_json::to_string(&stored).map_err(NodeError::damaged)
}

pub(crate) fn decode_package(text: &str) -> Result<SigningPackage, NodeError> {
    let stored: StoredPackage = serde_json::from_str(text).map_err(NodeError::damaged)?;
    let bytes = |text: &str| hex::decode(text).map_err(NodeError::damaged);
    let commitments = stored.commitments.iter().map(|(by, text)| Ok((*by, bytes(text)?)));
    Ok(SigningPackage {
        message: bytes(&stored.message)?,
        commitments: commitments.collect::<Result<_, NodeError>>()?,
        tweak: stored.tweak.map(|tweak| Tweak::new(*tweak.as_bytes())),
    })
}
