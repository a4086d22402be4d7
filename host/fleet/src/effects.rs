//! Implements [`DriveNodes`]: calls the nodes to perform an effect.

use crate::acks::{failures, forward_outcome, outcome, refusal};
use crate::calls::{Calls, Missed, unavailable};
use crate::fan_out::{Answer, Answers, NodeSet};
use crate::files::all_missing;
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use async_trait::async_trait;
use gateway_domain::admission::Derivation;
use gateway_domain::contribution::{Contributions, HelperAdmission, RecoveryCase};
use gateway_domain::error_chain;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::key::{CustodyKey, Epoch, epoch_root};
use gateway_domain::operation::{Effect, EffectId, EffectStep, Operation, Outcome};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_engine::ports::{DerivedKeys, DriveNodes, NodeFault, NodesStatus};
use gateway_node::{
    Call, Code, CommitEpoch, Discard, NodeError, NodeStatus, PolicyReceipt, Publication, Published,
};
use gateway_threshold::derive::{derive, extended_public_key};
use gateway_threshold::{PublicKeys, ThresholdError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[async_trait]
impl<N: Nodes> DriveNodes for Fleet<N> {
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
        let calls = &Calls::new(effect, operation, key)?;
        match effect.id.step {
            EffectStep::Decision => Err(unavailable("nodes make no decisions")),
            EffectStep::Admission => self.admit(calls).await,
            EffectStep::PolicyReceipt => self.issue_receipt(calls).await,
            EffectStep::Execute => self.run_ceremony(calls, key).await,
            EffectStep::CommitEpoch => self.commit_epoch(calls).await,
            EffectStep::Publish => self.publish(calls).await,
            EffectStep::Discard => self.discard(calls, key).await,
        }
    }

    async fn nodes_status(&self) -> Result<NodesStatus, Unavailable> {
        let known = self.known();
        let all = known.iter().map(|participant| (*participant, ())).collect();
        let status =
            |node: Arc<N::Node>, ()| -> Answer<'_, _> { Box::pin(async move { node.status().await }) };
        let answers = self.ask_all(all, status).await;
        let mut nodes = NodesStatus { n_known: known.len(), ..NodesStatus::default() };
        for (participant, answer) in answers {
            let status = answer.unwrap_or_else(|error| NodeStatus::unusable(error_chain(&error)));
            let NodeStatus { is_usable, findings, n_findings, keys, newest_decision } = status;
            if let Some(envelope) = newest_decision {
                nodes.newest_decisions.insert(participant, envelope);
            }
            if is_usable {
                nodes.open.insert(participant);
            }
            if !findings.is_empty() {
                nodes.faults.insert(participant, NodeFault { findings, n_findings, keys });
            }
        }
        Ok(nodes)
    }

    async fn check(&self) {
        self.check_next_rows().await;
    }

    async fn missing_shares(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        // Opening an embedded node whose database was deleted would create an empty one.
        if !self.known().contains(&participant) {
            return all_missing(keys).collect();
        }
        match self.node(participant).await {
            Ok(node) => node.missing_shares(keys).await.unwrap_or_default(),
            Err(_) => BTreeMap::new(),
        }
    }

    async fn contributions(
        &self,
        key: &CustodyKey,
        case: RecoveryCase,
    ) -> Result<Contributions, Unavailable> {
        let keys = self.public_keys(key).map_err(|why| unavailable(&why))?;
        // Opening an embedded node whose database was deleted would create an empty one.
        if let Some(absent) = case.helper_participants.as_set().difference(&self.known()).next() {
            return Err(unavailable(&format!("participant {absent} has no node")));
        }
        let helpers = case.helper_participants.iter().map(|helper| (helper, ())).collect();
        let ask = |node: Arc<N::Node>, ()| -> Answer<'_, _> {
            let case = &case;
            Box::pin(async move { node.contribution(case).await })
        };
        let answers = self.ask_all(helpers, ask).await;
        let mut admissions = Vec::with_capacity(answers.len());
        for (helper, answer) in answers {
            let admission = answer.map_err(|error| unavailable(&format!("participant {helper}: {error}")))?;
            self.check_admission(helper, &case, &admission)?;
            admissions.push(admission);
        }
        let cids: Vec<_> = admissions.iter().map(|admission| *admission.cid.as_bytes()).collect();
        let public = gateway_node::public_case(&case, (*keys).clone());
        let public = public.map_err(|error| unavailable(&error.to_string()))?;
        let root = Hex32::new(public.root(&cids));
        Ok(Contributions { case, admissions, root })
    }

    fn derivation(&self, key: &CustodyKey, intent: &Intent) -> Result<Option<Derivation>, String> {
        let keys = self.public_keys(key)?;
        let payments = || self.generations.payments(key.epoch.root, key.key_id, &keys);
        gateway_node::derivation(intent, &keys, payments)
    }

    fn derived_keys(&self, key: &CustodyKey, path: &[u32]) -> Result<DerivedKeys, String> {
        let keys = &*self.public_keys(key)?;
        let derive = || {
            let child = derive(keys, path)?;
            Ok(DerivedKeys {
                public_key_hex: hex::encode(child.public_key),
                point_hex: hex::encode(&child.point),
                extended_public_key: extended_public_key(keys, path)?,
                taproot_output_key_hex: hex::encode(child.taproot(None)?.public_key),
            })
        };
        derive().map_err(|error: ThresholdError| error.to_string())
    }
}

/// The steps other than executions.
impl<N: Nodes> Fleet<N> {
    /// Checks that the pinned node of this helper signed the admission of the case.
    fn check_admission(
        &self,
        helper: ParticipantIndex,
        case: &RecoveryCase,
        admission: &HelperAdmission,
    ) -> Result<(), Unavailable> {
        let pinned = self.pinned(helper).map(|identity| identity.signing_key());
        let is_signed = pinned.is_some_and(|key| admission.is_signed(case, &key));
        if is_signed && admission.participant == helper {
            return Ok(());
        }
        tracing::warn!(participant = %helper, "a node's admission of a recovery case is not signed by it");
        self.suspects.add([helper]);
        Err(unavailable(&format!("participant {helper} did not sign its admission of the recovery")))
    }

    async fn admit(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let request = &calls.admit();
        let calls_by_node = calls.effect.nodes.iter().map(|node| (*node, ())).collect();
        let bundle_hash = calls.decision().bundle_hash;
        let admit = |node: Arc<N::Node>, ()| -> Answer<'_, _> {
            Box::pin(async move {
                let admit = || -> Answer<'_, _> { Box::pin(node.admit(request, calls.profile)) };
                self.call_with_bundle(&node, bundle_hash, admit).await
            })
        };
        let enough = |answers: &Answers<_>| calls.plan.is_enough(&answered(answers));
        let answers = self.call_all(calls_by_node, "mid-admission", enough, admit).await;
        outcome(self.verify_receipts(calls, &ReceiptKind::Admitted, answers, |receipt| receipt), &calls.plan)
    }

    async fn issue_receipt(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let calls_by_node = calls.with_catch_up(&calls.effect.nodes)?;
        let issue = |node: Arc<N::Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(
                async move { missed.catch_up(self, &node, || Box::pin(node.policy_receipt(&call))).await },
            )
        };
        let enough = |answers: &Answers<_>| calls.plan.is_enough(&answered(answers));
        let answers = self.call_all(calls_by_node, "mid-policy-receipt", enough, issue).await;
        let kind = ReceiptKind::PolicyReceipt(calls.decision().into());
        let answers = self.verify_receipts(calls, &kind, answers, |answer: &PolicyReceipt| &answer.receipt);
        let (mut receipts, mut commitments) = (Answers::new(), BTreeMap::new());
        for (node, answer) in answers {
            let receipt = answer.map(|answer| {
                commitments.extend(answer.commitments.map(|bytes| (node, bytes)));
                answer.receipt
            });
            receipts.insert(node, receipt);
        }
        self.commitments.put(calls.operation.id, commitments);
        outcome(receipts, &calls.plan)
    }

    /// Promotes the generation. Nodes that leave the roster are called too, but their answers do not count.
    async fn commit_epoch(&self, calls: &Calls<'_>) -> Result<Outcome, Unavailable> {
        let commit =
            &calls.commit_epoch().ok_or_else(|| unavailable("the operation has staged no shares"))?;
        let CommitEpoch { attempt, epoch_root, .. } = *commit;
        let (plan, nodes) = (&calls.plan, &calls.effect.nodes);
        let all = plan.nodes.difference(&plan.receivers).chain(nodes).copied().collect();
        let promote = |node: Arc<N::Node>, call: Call| -> Answer<'_, _> {
            Box::pin(async move { node.commit_epoch(&call, commit).await })
        };
        let calls_by_node = calls.to(&all)?;
        let mut answers = self.call_all(calls_by_node, "mid-commit-epoch", |_| false, promote).await;
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
        let publish = |node: Arc<N::Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move {
                missed.catch_up(self, &node, || Box::pin(node.publish(&call, publication))).await
            })
        };
        let calls_by_node = calls.with_catch_up(&calls.effect.nodes)?;
        // The publication of new shares erases old ones, so every node should get it.
        let is_signature = calls.decision().operation_type == OperationType::Sign;
        let given_up = &calls.operation.given_up;
        let enough = |answers: &Answers<_>| {
            if is_signature {
                calls.plan.is_enough(&answered(answers))
            } else {
                calls.plan.nodes.difference(given_up).all(|node| answers.contains_key(node))
            }
        };
        let answers = self.call_all(calls_by_node, "mid-publish", enough, publish).await;
        let operation_type = calls.decision().operation_type;
        let kind = ReceiptKind::Published { attempt, operation_type, result_ref };
        let answers = self.verify_receipts(calls, &kind, answers, |receipt| receipt);
        // Fewer than the threshold are enough once the others have refused for good, since they were restored.
        let may_come = |answer: &Result<_, _>| answer.is_err() && refusal(answer).is_none();
        if is_signature && !enough(&answers) && answers.values().any(may_come) {
            return Err(unavailable(&failures(&answers)));
        }
        forward_outcome(answers)
    }

    /// Discards the operation. A node that completed the last attempt, or was restored since the decision, needs the receipt of
    /// another one. If all nodes that are needed for the result completed the attempt, gets the result.
    async fn discard(&self, calls: &Calls<'_>, key: Option<&CustodyKey>) -> Result<Outcome, Unavailable> {
        let nodes = &calls.effect.nodes;
        let mut discard = calls.discard();
        let answers = self.discard_on(calls, nodes, &discard).await?;
        let refused_by = |codes: &[Code]| -> NodeSet {
            let is_refused = |answer: &Result<NodeReceipt, NodeError>| matches!(answer, Err(NodeError::Rejected(rejection)) if codes.contains(&rejection.code));
            answers.iter().filter(|(_, answer)| is_refused(answer)).map(|(node, _)| *node).collect()
        };
        let completed = refused_by(&[Code::AttemptNotDiscarded]);
        if calls.plan.is_completed(&completed) {
            match self.completed_result(calls, key).await {
                Some(result @ (Outcome::Signed { .. } | Outcome::Staged { .. })) => return Ok(result),
                Some(Outcome::AttemptLost { receipts, .. }) => discard.discarded_attempts.extend(receipts),
                Some(Outcome::DecisionSigned { .. } | Outcome::Acked(_) | Outcome::Rejected { .. })
                | None => {}
            }
        }
        let refused = refused_by(&[Code::AttemptNotDiscarded, Code::DecidedBeforeReadmission]);
        let kind = ReceiptKind::Discarded;
        let mut answers = self.verify_receipts(calls, &kind, answers, |receipt| receipt);
        if !refused.is_empty() {
            discard
                .discarded_attempts
                .extend(answers.values().filter_map(|answer| Some(answer.as_ref().ok()?.clone().into())));
            if !completed.is_empty() {
                let others = nodes.difference(&refused).copied().collect();
                let attempt = calls.operation.executed_attempt();
                discard.discarded_attempts.extend(self.discard_attempt(calls, attempt, &others).await?);
            }
            let repeated = self.discard_on(calls, &refused, &discard).await?;
            answers.extend(self.verify_receipts(calls, &kind, repeated, |receipt| receipt));
        }
        forward_outcome(answers)
    }

    /// The outcome of the last attempt, which the nodes completed. `None` if it cannot be had now.
    async fn completed_result(&self, calls: &Calls<'_>, key: Option<&CustodyKey>) -> Option<Outcome> {
        let operation = calls.operation;
        let id =
            EffectId { step: EffectStep::Execute, attempt: operation.executed_attempt(), ..calls.effect.id };
        let effect = &Effect { id, nodes: operation.planned_nodes() };
        let calls = &Calls::new(effect, operation, key).ok()?;
        self.run_ceremony(calls, key).await.ok()
    }

    async fn run_ceremony(
        &self,
        calls: &Calls<'_>,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        match calls.operation.intent.operation_type() {
            OperationType::Sign => self.sign(calls, key).await,
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => self.make_shares(calls, key).await,
        }
    }

    async fn discard_on(
        &self,
        calls: &Calls<'_>,
        nodes: &NodeSet,
        discard: &Discard,
    ) -> Result<Answers<NodeReceipt>, Unavailable> {
        let call = |node: Arc<N::Node>, call: Call| -> Answer<'_, _> {
            Box::pin(async move { node.discard(&call, discard).await })
        };
        Ok(self.call_all(calls.to(nodes)?, "mid-discard", |_| false, call).await)
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

/// The nodes that made the step.
fn answered<T>(answers: &Answers<T>) -> BTreeSet<ParticipantIndex> {
    answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(node, _)| *node).collect()
}
