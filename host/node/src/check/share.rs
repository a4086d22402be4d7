//! A share: it opens at its place, is the one of its public keys, and an operation made it.

use super::page::Raw;
use super::{Checker, Fault, check_hash};
use crate::error::NodeError;
use crate::row::Stage;
use crate::row_hash;
use crate::sealing::Slot;
use crate::vault::Held;
use gateway_domain::ids::{EpochName, KeyId};
use gateway_threshold::{KeyShare, PublicKeys};

const STATES: [&str; 4] = ["staged", "active", "retired", "erased"];

impl Checker<'_> {
    pub(super) async fn share(&mut self, row: &Raw) -> Result<(), Fault> {
        let key_id = KeyId(row.hash("key_id").ok_or("`key_id` is no key's id")?);
        let epoch = row.text("epoch").ok_or("`epoch` is no text")?;
        let state = row.text("state").filter(|state| STATES.contains(&state.as_str()));
        let state = state.ok_or("`state` is none that a share has")?;
        let operation_id = row.hash("operation_id").ok_or("`operation_id` is no operation's id")?.to_string();
        let attempt = row.attempt().ok_or("`attempt` is no attempt")?;
        let root = row.hash("epoch_root").ok_or("`epoch_root` is no hash")?;
        let stored = row_hash::Share {
            key_id: &key_id.to_string(),
            epoch: &epoch,
            state: &state,
            operation_id: &operation_id,
            attempt,
            epoch_root: &root.to_string(),
        };
        check_hash(row, stored.hash())?;
        let package = row.bytes("public_keys").ok_or("`public_keys` are missing")?;
        let held = Held::new(EpochName(epoch.clone()), root, package);
        let keys = held.decode(key_id).map_err(|_| "`public_keys` do not make `epoch_root`")?;
        match (row.bytes("secret"), state.as_str()) {
            (None, "erased") => {}
            (None, _) => return Err("`secret` is missing".into()),
            (Some(_), "erased") => return Err("`secret` is there, and the share was erased".into()),
            (Some(sealed), _) => self.opens(key_id, &epoch, &sealed, &keys)?,
        }
        self.was_made(&operation_id, &state).await
    }

    /// The public share is made of the secret one here, and compared: see [`KeyShare::check_belongs`].
    fn opens(&self, key_id: KeyId, epoch: &str, sealed: &[u8], keys: &PublicKeys) -> Result<(), Fault> {
        let key_id = key_id.to_string();
        let opened = self.sealing.open(Slot { key_id: &key_id, epoch }, sealed);
        let bytes = opened.map_err(|error| match error {
            NodeError::Unavailable { detail, .. } => detail,
            NodeError::Rejected(_) | NodeError::Lost { .. } => "`secret` does not open",
        })?;
        let share = KeyShare::from_secret_bytes(keys.profile(), &bytes);
        let share = share.map_err(|_| "`secret` opens, and is no share")?;
        share.check_belongs(keys).map_err(|_| "`secret` opens, and is not the share of `public_keys`")?;
        if share.participant() == self.me.0 {
            Ok(())
        } else {
            Err("`secret` opens, and is another participant's share".into())
        }
    }

    /// What made the share is on record, as far as its state says.
    async fn was_made(&mut self, operation_id: &str, state: &str) -> Result<(), Fault> {
        let sql = "SELECT stage FROM operation WHERE operation_id = ?1";
        let stage: Option<String> =
            sqlx::query_scalar(sql).bind(operation_id).fetch_optional(&mut *self.conn).await?;
        let stage = stage.ok_or("the operation that made it is missing")?;
        let is_in_force = match Stage::named(&stage) {
            Some(Stage::Executed) => false,
            Some(Stage::Committed | Stage::Published) => true,
            Some(Stage::Admitted | Stage::Receipted | Stage::Discarded) | None => {
                return Err("the operation that made it made none".into());
            }
        };
        if is_in_force == (state != "staged") {
            Ok(())
        } else {
            Err("`state` does not follow from the operation that made it".into())
        }
    }
}
