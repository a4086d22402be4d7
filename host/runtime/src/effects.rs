//! Implements [`DriveNodes`]: calls the nodes to perform an effect.

use crate::acks::{forward_outcome, outcome};
use crate::calls::{Calls, Missed, unavailable};
use crate::fan_out::Answer;
use crate::fleet::EmbeddedFleet;
use async_trait::async_trait;
use gateway_domain::admission::Derivation;
use gateway_domain::ids::KeyId;
use gateway_domain::intent::{OperationType, SigningTerms};
use gateway_domain::key::{CustodyKey, Epoch, epoch_root};
use gateway_domain::operation::{Effect, EffectStep, Failure, Operation, Outcome};
use gateway_domain::receipt::ReceiptKind;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_engine::ports::{DerivedKeys, DriveNodes, NodesStatus};
use gateway_node::{Call, CommitEpoch, Node, Publication, Published};
use gateway_threshold::derive::{derive, extended_public_key};
use gateway_threshold::{PublicKeys, ThresholdError};
use std::collections::BTreeMap;
use std::sync::Arc;

#[async_trait]
impl DriveNodes for EmbeddedFleet {
    /// Call it for one effect of an operation at a time: the engine holds the operation's lock.
    ///
    /// # Errors
    /// [`gateway_engine::Dependency::Runtime`] when too few nodes answered for an outcome; the detail has the error of each
    /// participant.
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        let calls = &Calls::new(effect, operation)?;
        match effect.id.step {
            EffectStep::Decision => Err(unavailable("nodes make no decisions")),
            EffectStep::Admission => self.admit(calls).await,
            EffectStep::PolicyReceipt => self.issue_receipt(calls).await,
            EffectStep::Execute => match operation.intent.operation_type() {
                OperationType::Sign => self.sign(calls, key).await,
                OperationType::KeyCreate
                | OperationType::Refresh
                | OperationType::Reshare
                | OperationType::Rotate
                | OperationType::Recover => self.make_shares(calls, key).await,
            },
            EffectStep::CommitEpoch => self.commit_epoch(calls).await,
            EffectStep::Publish => self.publish(calls).await,
            EffectStep::Discard => self.discard(calls).await,
        }
    }

    async fn nodes_status(&self) -> Result<NodesStatus, Unavailable> {
        Ok(self.status().await)
    }

    async fn check(&self) {
        self.check_next_rows().await;
    }

    async fn missing_shares(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        self.shares_not_held(participant, keys).await
    }

    fn derivation(&self, key: &CustodyKey, terms: &SigningTerms) -> Result<Option<Derivation>, String> {
        if !terms.has_derived_key() {
            return Ok(None);
        }
        gateway_node::derivation(terms, &*self.public_keys(key)?)
    }

    fn derived_keys(&self, key: &CustodyKey, path: &[u32]) -> Result<DerivedKeys, String> {
        let keys = &*self.public_keys(key)?;
        let derive = || {
            let child = derive(keys, path)?;
            Ok(DerivedKeys {
                public_key_hex: hex::encode(child.public_key),
                point_hex: hex::encode(child.point),
                extended_public_key: extended_public_key(keys, path)?,
                taproot_output_key_hex: hex::encode(child.taproot(None)?.public_key),
            })
        };
        derive().map_err(|error: ThresholdError| error.to_string())
    }
}

/// The steps other than executions.
impl EmbeddedFleet {
    async fn admit(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let request = &calls.admit();
        let calls_by_node = calls.effect.nodes.iter().map(|node| (*node, ())).collect();
        let bundle_hash = calls.decision().bundle_hash;
        let admit = |node: Arc<Node>, ()| -> Answer<'_, _> {
            Box::pin(async move {
                self.call_with_bundle(&node, bundle_hash, || Box::pin(node.admit(request))).await
            })
        };
        let answers = self.call_all(calls_by_node, "mid-admission", admit).await;
        outcome(self.verify_receipts(calls, &ReceiptKind::Admitted, answers, |receipt| receipt), &calls.plan)
    }

    async fn issue_receipt(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let calls_by_node = calls.with_catch_up(&calls.effect.nodes)?;
        let issue = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move {
                missed.catch_up(self, &node, || Box::pin(node.materialize_receipt(&call))).await
            })
        };
        let answers = self.call_all(calls_by_node, "mid-policy-receipt", issue).await;
        let kind = ReceiptKind::PolicyReceipt(calls.decision().into());
        outcome(self.verify_receipts(calls, &kind, answers, |receipt| receipt), &calls.plan)
    }

    /// Promotes the generation. Nodes that leave the roster are called too, but their answers do not count.
    async fn commit_epoch(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let commit =
            &calls.commit_epoch().ok_or_else(|| unavailable("the operation has staged no shares"))?;
        let CommitEpoch { attempt, epoch_root, .. } = *commit;
        let (plan, nodes) = (&calls.plan, &calls.effect.nodes);
        let all = plan.nodes.difference(&plan.receivers).chain(nodes).copied().collect();
        let promote = |node: Arc<Node>, call: Call| -> Answer<'_, _> {
            Box::pin(async move { node.commit_epoch(&call, commit).await })
        };
        let calls_by_node = calls.to(&all)?;
        let mut answers = self.call_all(calls_by_node, "mid-commit-epoch", promote).await;
        answers.retain(|node, _| nodes.contains(node));
        let kind = ReceiptKind::Promoted { attempt, epoch_root };
        forward_outcome(self.verify_receipts(calls, &kind, answers, |receipt| receipt))
    }

    async fn publish(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let Operation { signature, staged, result_ref, .. } = calls.operation;
        let signature = signature.as_deref().cloned().map(Published::Signature);
        let result = signature.or_else(|| staged.clone().map(Published::Generation));
        let (result, result_ref) =
            result.zip(*result_ref).ok_or_else(|| unavailable("the operation has no result"))?;
        let attempt = calls.operation.executed_attempt();
        let promoted = calls.operation.promoted_receipts.clone();
        let publication = &Publication { attempt, result, promoted };
        let publish = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move {
                missed.catch_up(self, &node, || Box::pin(node.publish(&call, publication))).await
            })
        };
        let calls_by_node = calls.with_catch_up(&calls.effect.nodes)?;
        let answers = self.call_all(calls_by_node, "mid-publish", publish).await;
        let operation_type = calls.decision().operation_type;
        let kind = ReceiptKind::Published { attempt, operation_type, result_ref };
        forward_outcome(self.verify_receipts(calls, &kind, answers, |receipt| receipt))
    }

    async fn discard(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let discard = |node: Arc<Node>, call: Call| -> Answer<'_, _> {
            Box::pin(async move { node.discard(&call).await })
        };
        let calls_by_node = calls.to(&calls.effect.nodes)?;
        let answers = self.call_all(calls_by_node, "mid-discard", discard).await;
        forward_outcome(self.verify_receipts(calls, &ReceiptKind::Discarded, answers, |receipt| receipt))
    }

    /// The key's public keys, checked against the root of its epoch. The error is for people.
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

/// The outcome of an operation that the fleet itself rejects.
pub(crate) fn rejected(code: &str, detail: String) -> Outcome {
    Outcome::Rejected {
        failure: Failure { code: code.to_owned(), detail, culprits: Vec::new() },
        policy: None,
    }
}
