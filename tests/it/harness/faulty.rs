//! The real nodes, with faults that a test can switch on.

use async_trait::async_trait;
use gateway_domain::admission::Derivation;
use gateway_domain::contribution::{Contributions, RecoveryCase};
use gateway_domain::ids::{KeyId, OperationId};
use gateway_domain::intent::Intent;
use gateway_domain::key::{CustodyKey, Epoch};
use gateway_domain::operation::{Effect, EffectStep, Failure, Operation, Outcome};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::{DerivedKeys, DriveNodes, NodesStatus};
use gateway_engine::{Dependency, Unavailable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(crate) struct Faults {
    unavailable: AtomicBool,
    rejecting: AtomicBool,
    unreachable: Mutex<BTreeSet<ParticipantIndex>>,
    /// Held by a test while the nodes are not to answer.
    stopped: tokio::sync::RwLock<()>,
}

impl Faults {
    /// Whether `execute` effects fail temporarily, so that the operation stays in execution.
    pub(crate) fn set_unavailable(&self, unavailable: bool) {
        self.unavailable.store(unavailable, Ordering::SeqCst);
    }

    /// Whether `execute` effects are rejected, so that the operation fails.
    pub(crate) fn set_rejecting(&self, rejecting: bool) {
        self.rejecting.store(rejecting, Ordering::SeqCst);
    }

    /// `execute` effects begin only when the guard is dropped.
    pub(crate) fn stop(&self) -> tokio::sync::RwLockWriteGuard<'_, ()> {
        self.stopped.try_write().unwrap()
    }

    /// The nodes that the status of the nodes leaves out.
    pub(crate) fn set_unreachable(&self, nodes: &[u16]) {
        *self.unreachable.lock().unwrap() = nodes.iter().copied().map(ParticipantIndex).collect();
    }
}

pub(crate) struct FaultyNodes {
    faults: Arc<Faults>,
    real: Arc<dyn DriveNodes>,
    /// The operations with an effect in progress. The engine must perform one effect of an operation at a time.
    performing: Mutex<BTreeSet<OperationId>>,
}

impl FaultyNodes {
    pub(crate) fn new(faults: Arc<Faults>, real: Arc<dyn DriveNodes>) -> Self {
        Self { faults, real, performing: Mutex::default() }
    }
}

#[async_trait]
impl DriveNodes for FaultyNodes {
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        assert!(
            self.performing.lock().unwrap().insert(operation.id),
            "two effects of operation {} are performed at the same time",
            operation.id
        );
        if effect.id.step == EffectStep::Execute {
            let _stopped = self.faults.stopped.read().await;
        }
        let outcome = match effect.id.step {
            EffectStep::Execute if self.faults.unavailable.load(Ordering::SeqCst) => {
                Err(Unavailable::new(Dependency::Runtime, "a test made the nodes unavailable"))
            }
            EffectStep::Execute if self.faults.rejecting.load(Ordering::SeqCst) => {
                let failure = Failure { code: "refused".into(), detail: "a test".into(), culprits: vec![] };
                Ok(Outcome::Rejected { failure, policy: None })
            }
            _ => self.real.perform(effect, operation, key).await,
        };
        self.performing.lock().unwrap().remove(&operation.id);
        outcome
    }

    async fn nodes_status(&self) -> Result<NodesStatus, Unavailable> {
        let mut status = self.real.nodes_status().await?;
        status.open.retain(|node| !self.faults.unreachable.lock().unwrap().contains(node));
        Ok(status)
    }

    async fn check(&self) {
        self.real.check().await;
    }

    async fn missing_shares(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        self.real.missing_shares(participant, keys).await
    }

    async fn contributions(
        &self,
        key: &CustodyKey,
        case: RecoveryCase,
    ) -> Result<Contributions, Unavailable> {
        self.real.contributions(key, case).await
    }

    fn derivation(&self, key: &CustodyKey, intent: &Intent) -> Result<Option<Derivation>, String> {
        self.real.derivation(key, intent)
    }

    fn derived_keys(&self, key: &CustodyKey, path: &[u32]) -> Result<DerivedKeys, String> {
        self.real.derived_keys(key, path)
    }
}
