//! The check of a share: that it opens, matches its public keys, and was made by an operation.

use super::{CheckError, Checker, check_hash};
use crate::error::NodeError;
use crate::store::operation;
use crate::store::row_hash;
use crate::store::tables::{attempt, hash};
use crate::store::vault::Generation;
use gateway_domain::ids::{EpochName, KeyId};
use gateway_domain::operation::EffectStep;
use gateway_sqlite::Row;
use gateway_threshold::{KeyShare, PublicKeys};

const STATES: [&str; 4] = ["staged", "active", "retired", "erased"];

impl Checker<'_> {
    pub(super) async fn check_share(&mut self, row: &Row) -> Result<(), CheckError> {
        let key_id = KeyId(hash(row, "key_id").ok_or("`key_id` is not a key's id")?);
        let epoch = row.text("epoch").ok_or("`epoch` is not text")?;
        let state = row.text("state").filter(|state| STATES.contains(state));
        let state = state.ok_or("`state` is not a state of a share")?;
        let operation_id =
            hash(row, "operation_id").ok_or("`operation_id` is not an operation's id")?.to_string();
        let attempt = attempt(row).ok_or("`attempt` is not a number from 1")?;
        let root = hash(row, "epoch_root").ok_or("`epoch_root` is not a hash")?;
        let stored = row_hash::Share {
            key_id: &key_id.to_string(),
            epoch,
            state,
            operation_id: &operation_id,
            attempt,
            made_at_ms: row.integer("made_at_ms").ok_or("`made_at_ms` is not a number")?,
            used_since_ms: row.integer("used_since_ms"),
            epoch_root: &root.to_string(),
        };
        check_hash(row, stored.hash())?;
        let package = row.bytes("public_keys").ok_or("`public_keys` are missing")?;
        let held = Generation::new(EpochName(epoch.to_owned()), root, package.to_vec());
        let keys = held.decode(key_id).map_err(|_| "`public_keys` do not match `epoch_root`")?;
        match (row.bytes("secret"), state) {
            (None, "erased") => {}
            (None, _) => return Err("`secret` is missing".into()),
            (Some(_), "erased") => return Err("`secret` is present, but the share was erased".into()),
            (Some(sealed), _) => self.check_secret(key_id, epoch, sealed, &keys)?,
        }
        self.check_origin(&operation_id, state).await
    }

    /// Opens the share and checks that it is this node's share of the public keys.
    fn check_secret(
        &self,
        key_id: KeyId,
        epoch: &str,
        sealed: &[u8],
        keys: &PublicKeys,
    ) -> Result<(), CheckError> {
        let key_id = key_id.to_string();
        let opened = self.sealing.open((&key_id, epoch), sealed);
        let bytes = opened.map_err(|error| match error {
            NodeError::Unavailable { detail, .. } => CheckError::Damaged(detail),
            NodeError::Rejected(_) | NodeError::Lost { .. } | NodeError::BundleUnknown { .. } => {
                CheckError::from("`secret` does not open")
            }
        })?;
        let share = KeyShare::from_secret_bytes(keys.profile(), &bytes);
        let share = share.map_err(|_| "`secret` opens, but is not a share")?;
        share.check_belongs(keys).map_err(|_| "`secret` opens, but is not the share of `public_keys`")?;
        if share.participant() == self.me.0 {
            Ok(())
        } else {
            Err("`secret` opens, but is another participant's share".into())
        }
    }

    /// Checks that the operation that made the share is stored, and has reached the step that the share's state requires.
    async fn check_origin(&mut self, operation_id: &str, state: &str) -> Result<(), CheckError> {
        let sql = "SELECT stage FROM operation WHERE operation_id = ?1";
        let found = self.conn.row(sql, &[operation_id.into()]).await?;
        let stage: String = found.ok_or("the operation that made it is missing")?.get("stage")?;
        let is_promoted = match operation::step_of_stage(&stage) {
            Some(EffectStep::Execute) => false,
            Some(EffectStep::CommitEpoch | EffectStep::Publish) => true,
            Some(
                EffectStep::Decision
                | EffectStep::Admission
                | EffectStep::PolicyReceipt
                | EffectStep::Discard,
            )
            | None => return Err("the operation that made it has made no share".into()),
        };
        if is_promoted == (state != "staged") {
            Ok(())
        } else {
            Err("`state` does not match the step of the operation that made it".into())
        }
    }
}
