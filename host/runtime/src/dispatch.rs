//! Which effect is what on the nodes.

use crate::calls::{Calls, unavailable};
use crate::fleet::EmbeddedFleet;
use async_trait::async_trait;
use gateway_domain::admission::Derivation;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::intent::{Bip32, OperationType};
use gateway_domain::key::{CustodyKey, Epoch, epoch_root};
use gateway_domain::operation::{Effect, EffectStep, Failure, Operation, Outcome};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_engine::ports::{DriveNodes, NodesStatus};
use gateway_threshold::PublicKeys;
use gateway_threshold::derive::derive;
use std::collections::BTreeMap;
use std::sync::Arc;

#[async_trait]
impl DriveNodes for EmbeddedFleet {
    /// # Errors
    /// [`gateway_engine::Dependency::Runtime`] when too few nodes answered to say anything, the detail names participants; or
    /// when too many effects of the operation wait for their turn.
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        let _turn = self.turns.lock(operation.id).await?;
        let calls = Calls::new(operation)?;
        let plan = operation.plan().ok_or_else(|| unavailable("the operation has no plan"))?;
        let nodes = &effect.nodes;
        match effect.id.step {
            EffectStep::Decision => Err(unavailable("nodes take decisions and give none")),
            EffectStep::Admission => self.apply_admission(calls, nodes, &plan).await,
            EffectStep::PolicyReceipt => self.materialize_receipt(calls, effect, nodes, &plan).await,
            EffectStep::Execute => match operation.intent.operation_type() {
                OperationType::Sign => self.sign(calls, effect, nodes, key).await,
                OperationType::KeyCreate
                | OperationType::Refresh
                | OperationType::Reshare
                | OperationType::Rotate
                | OperationType::Recover => self.make_shares(calls, effect, key).await,
            },
            EffectStep::CommitEpoch => self.commit_epoch(calls, effect, nodes).await,
            EffectStep::Publish => self.publish(calls, effect, nodes).await,
            EffectStep::Discard => self.discard(calls, effect, nodes).await,
        }
    }

    async fn nodes_status(&self) -> Result<NodesStatus, Unavailable> {
        Ok(self.open().await)
    }

    async fn check(&self) {
        self.check_some().await;
    }

    async fn lacking(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        self.not_held(participant, keys).await
    }

    fn derive(&self, key: &CustodyKey, bip32: &Bip32) -> Result<Derivation, String> {
        let keys = self.public_keys(key)?;
        let path = bip32.indices().map_err(|error| error.to_string())?;
        let child = derive(&keys, &path).map_err(|error| error.to_string())?;
        Ok(Derivation {
            path: bip32.path.clone(),
            tweak: Hex32::new(*child.tweak.as_bytes()),
            public_key_hex: hex::encode(child.public_key),
        })
    }
}

impl EmbeddedFleet {
    /// The group's public package, which must be the one that the key's epoch root names; the error is for people.
    pub(crate) fn public_keys(&self, key: &CustodyKey) -> Result<Arc<PublicKeys>, String> {
        let public = key.public.as_ref().ok_or("the key has no shares yet")?;
        self.generations.keys(key.epoch.root, || {
            let root = epoch_root(key.key_id, &key.epoch.name, &public.package_hex);
            if root.map_err(|error| error.to_string())? != key.epoch.root {
                return Err("the key's public package does not match its epoch root".to_owned());
            }
            let package = hex::decode(&public.package_hex).map_err(|error| error.to_string())?;
            PublicKeys::from_bytes(&package).map_err(|error| error.to_string())
        })
    }
}

pub(crate) fn rejected(code: &str, detail: String) -> Outcome {
    Outcome::Rejected {
        failure: Failure { code: code.to_owned(), detail, culprits: Vec::new() },
        policy: None,
    }
}
