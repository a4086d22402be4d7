//! Nodes that do whatever they are asked: for what the gateway does with keys, whichever ceremonies real nodes have.

use async_trait::async_trait;
use gateway_domain::admission::Derivation;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Bip32;
use gateway_domain::key::{CustodyKey, Epoch, PublicKey, epoch_root};
use gateway_domain::operation::{
    Action, Effect, Failure, NodeReceipt, Operation, Outcome, SignatureResult, Staged,
};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::DriveNodes;
use gateway_engine::secret::Secrets;
use gateway_engine::{Dependency, Unavailable};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct WillingNodes {
    /// No ceremony ends, as when nodes are away: the operation stays in execution.
    pub(crate) stalled: AtomicBool,
    /// Every ceremony is refused for good.
    pub(crate) refusing: AtomicBool,
}

#[async_trait]
impl DriveNodes for WillingNodes {
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        _: Option<&CustodyKey>,
        _: &Secrets,
    ) -> Result<Outcome, Unavailable> {
        match &effect.action {
            Action::ObtainDecision => Err(Unavailable::new(Dependency::Runtime, "nodes give no decisions")),
            Action::RunCeremony(_) if self.stalled.load(Ordering::SeqCst) => {
                Err(Unavailable::new(Dependency::Runtime, "nodes are away"))
            }
            Action::RunCeremony(_) if self.refusing.load(Ordering::SeqCst) => {
                let failure = Failure { code: "refused".into(), detail: "a test".into(), culprits: vec![] };
                Ok(Outcome::Rejected { failure, policy: None })
            }
            Action::RunCeremony(_) => Ok(ceremony(operation)),
            Action::ApplyAdmission(nodes)
            | Action::MaterializeReceipt(nodes)
            | Action::CommitEpoch(nodes)
            | Action::Publish(nodes)
            | Action::Discard(nodes) => Ok(acks(nodes)),
        }
    }

    fn derive(&self, _: &CustodyKey, _: &Bip32) -> Result<Derivation, String> {
        Err("these nodes derive nothing".to_owned())
    }
}

fn acks(nodes: &BTreeSet<ParticipantIndex>) -> Outcome {
    let receipt = |participant: &ParticipantIndex| NodeReceipt {
        participant: *participant,
        transition_hash: Hex32::new([1; 32]),
    };
    Outcome::Acked(nodes.iter().map(receipt).collect())
}

fn ceremony(operation: &Operation) -> Outcome {
    let decision = &operation.admission.as_ref().unwrap().decision;
    let Some(target) = &decision.target else {
        return Outcome::Signed(SignatureResult {
            signature_profile: "frost-ed25519-sha512".into(),
            public_key_hex: "00".repeat(32),
            signed_digest: decision.request_digest,
            signature_hex: "00".repeat(64),
            signers: decision.participants.clone(),
        });
    };
    // The public key is the key's own for ever; the package is each generation's.
    let package_hex = hex::encode(format!("{}/{}", target.key_id, target.epoch));
    let root = epoch_root(target.key_id, &target.epoch, &package_hex).unwrap();
    Outcome::Staged(Box::new(Staged {
        epoch: Epoch { name: target.epoch.clone(), root },
        public: PublicKey { public_key_hex: target.key_id.to_string(), package_hex },
        participants: target.participants.clone(),
        threshold: target.threshold,
    }))
}
