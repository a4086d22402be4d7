//! The calls to nodes that perform one effect of an operation. They are computed from the effect and the operation alone.

use crate::fan_out::{Answer, NodeSet, PerNode};
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::admission::{Admission, AdmissionDecision};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Effect, EffectId, EffectStep, Operation, Plan};
use gateway_domain::policy::Recorded;
use gateway_domain::receipt::{AttemptReceipt, Chain};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::{Dependency, Unavailable};
use gateway_node::{AdmitRequest, Call, Code, CommitEpoch, Discard, NodeError, Owner, Subject};
use gateway_threshold::SignatureProfile;
use std::borrow::Cow;
use std::sync::Arc;

/// An effect to perform, with its admitted operation.
pub(crate) struct Calls<'a> {
    pub(crate) effect: &'a Effect,
    pub(crate) operation: &'a Operation,
    pub(crate) plan: Plan,
    /// The signature profile of the key.
    pub(crate) profile: SignatureProfile,
    admission: &'a Admission,
}

impl<'a> Calls<'a> {
    /// # Errors
    /// [`Dependency::Runtime`] for an operation without a decision, which the engine does not pass here.
    pub(crate) fn new(
        effect: &'a Effect,
        operation: &'a Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Self, Unavailable> {
        let planned = operation.admission.as_deref().zip(operation.plan());
        let (admission, plan) =
            planned.ok_or_else(|| unavailable("the operation has no admission decision"))?;
        let profile = match (&operation.intent, key) {
            (Intent::KeyCreate(create), _) => Some(create.signature_profile.as_str()),
            (_, Some(key)) => Some(key.signature_profile.as_str()),
            (_, None) => None,
        };
        let profile = profile.ok_or_else(|| unavailable("the key is unknown"))?;
        let profile = profile.parse().map_err(|_| unavailable("the key's signature profile is unknown"))?;
        Ok(Self { effect, operation, plan, profile, admission })
    }

    pub(crate) const fn decision(&self) -> &'a AdmissionDecision {
        &self.admission.decision
    }

    /// The chain of the operation's steps on one node.
    pub(crate) fn chain(&self, participant: ParticipantIndex) -> Chain {
        let admission_hash = self.admission.admission_hash;
        Chain { admission_hash, operation_id: self.operation.id, participant }
    }

    /// The call that performs the effect on one node.
    pub(crate) fn call(&self, participant: ParticipantIndex) -> Result<Call, Unavailable> {
        self.call_of(self.effect.id, participant)
    }

    /// The call for each of these nodes.
    pub(crate) fn to(&self, nodes: &NodeSet) -> Result<PerNode<Call>, Unavailable> {
        nodes.iter().map(|node| Ok((*node, self.call(*node)?))).collect()
    }

    /// The call for each of these nodes, with the earlier calls that the node may have missed.
    pub(crate) fn with_catch_up(&self, nodes: &NodeSet) -> Result<PerNode<(Call, Missed)>, Unavailable> {
        let admit = Arc::new(self.admit());
        let arguments = |node: &ParticipantIndex| {
            Ok((*node, (self.call(*node)?, self.earlier_calls(Arc::clone(&admit), *node)?)))
        };
        nodes.iter().map(arguments).collect()
    }

    /// The request to admit the operation.
    pub(crate) fn admit(&self) -> AdmitRequest {
        let operation = self.operation;
        AdmitRequest {
            effect: self.effect_id(EffectStep::Admission),
            intent: operation.intent.clone(),
            submitter: operation.submitter.clone(),
            approvals: operation.approvals.clone(),
            policy: Recorded::from(&operation.policy),
            owner: Owner { tenant: operation.tenant.clone(), key_ref: operation.key.key_ref.clone() },
            envelope: self.admission.envelope.clone(),
        }
    }

    /// The promotion of the generation that the operation staged; `None` if it has staged none.
    pub(crate) fn commit_epoch(&self) -> Option<CommitEpoch> {
        let epoch_root = self.operation.staged.as_deref()?.epoch.root;
        let Operation { staged_receipts, .. } = self.operation;
        let attempt = self.operation.executed_attempt();
        Some(CommitEpoch { attempt, epoch_root, staged: staged_receipts.clone() })
    }

    /// What a node needs to discard the operation.
    pub(crate) fn discard(&self) -> Discard {
        let Operation { discarded_attempts, discarded_receipts, .. } = self.operation;
        Discard {
            decision: self.admission.envelope.clone(),
            discarded_attempts: discarded_attempts
                .iter()
                .cloned()
                .chain(discarded_receipts.iter().cloned().map(AttemptReceipt::from))
                .collect(),
        }
    }

    /// The calls before this one that a node may have missed: a step does not wait for nodes that are down, and a promotion
    /// does not wait for nodes that leave the roster.
    fn earlier_calls(&self, admit: Arc<AdmitRequest>, node: ParticipantIndex) -> Result<Missed, Unavailable> {
        let call = |step| self.call_of(self.effect_id(step), node);
        let step = self.effect.id.step;
        let receipt = (step != EffectStep::PolicyReceipt).then(|| call(EffectStep::PolicyReceipt));
        let commit = self.commit_epoch().filter(|_| step == EffectStep::Publish);
        let commit = commit.map(|commit| Ok((call(EffectStep::CommitEpoch)?, commit)));
        Ok(Missed {
            bundle_hash: self.decision().bundle_hash,
            admit,
            profile: self.profile,
            receipt: receipt.transpose()?,
            commit: commit.transpose()?,
        })
    }

    const fn effect_id(&self, step: EffectStep) -> EffectId {
        EffectId { operation: self.operation.id, step, attempt: 1 }
    }

    pub(crate) fn call_of(
        &self,
        effect: EffectId,
        participant: ParticipantIndex,
    ) -> Result<Call, Unavailable> {
        let (operation_type, executed) =
            (self.operation.intent.operation_type(), self.operation.executed_attempt());
        let previous = self.chain(participant).before(effect.step, operation_type, executed);
        let previous = previous.map_err(|error| unavailable(&error.to_string()))?;
        let subject = Subject::new(&self.admission.decision, self.profile);
        Ok(Call { effect, admission_hash: self.admission.admission_hash, previous, subject })
    }
}

/// The calls before a call, for a node that missed them.
pub(crate) struct Missed {
    bundle_hash: Hex32,
    admit: Arc<AdmitRequest>,
    profile: SignatureProfile,
    receipt: Option<Call>,
    commit: Option<(Call, CommitEpoch)>,
}

impl Missed {
    /// Calls the node. If it answers that the step is out of order, repeats the earlier steps and calls once more. Offers it the
    /// bundle if it does not have it.
    pub(crate) async fn catch_up<'f, N: Nodes, T>(
        &self,
        fleet: &Fleet<N>,
        node: &N::Node,
        call: impl Fn() -> Answer<'f, T>,
    ) -> Result<T, NodeError> {
        let hash = self.bundle_hash;
        match fleet.call_with_bundle(node, hash, &call).await {
            Err(NodeError::Rejected(rejection)) if rejection.code == Code::StepOutOfOrder => {
                let admit = || -> Answer<'_, _> { Box::pin(node.admit(&self.admit, self.profile)) };
                fleet.call_with_bundle(node, hash, admit).await?;
                if let Some(receipt) = &self.receipt {
                    node.policy_receipt(receipt).await?;
                }
                if let Some((call, commit)) = &self.commit {
                    node.commit_epoch(call, commit).await?;
                }
                call().await
            }
            answer => answer,
        }
    }
}

impl<N: Nodes> Fleet<N> {
    /// Calls the node. If it answers that it does not have the bundle, or that the bundle was superseded, offers it and calls once
    /// more.
    pub(crate) async fn call_with_bundle<'f, T>(
        &self,
        node: &N::Node,
        bundle_hash: Hex32,
        call: impl Fn() -> Answer<'f, T>,
    ) -> Result<T, NodeError> {
        match call().await {
            Err(error) if needs_bundle(&error) => {
                let found = self.bundles.find(bundle_hash).await.map_err(|why| {
                    tracing::warn!(%bundle_hash, why = why.detail, "a policy bundle cannot be read for a node");
                    let detail = Cow::Borrowed("the policy bundle cannot be read");
                    NodeError::Unavailable { detail, source: None }
                });
                let Some(offer) = found? else { return Err(error) };
                node.offer_bundle(offer).await?;
                call().await
            }
            answer => answer,
        }
    }
}

fn needs_bundle(error: &NodeError) -> bool {
    match error {
        NodeError::BundleUnknown { .. } => true,
        NodeError::Rejected(rejection) => rejection.code == Code::BundleSuperseded,
        NodeError::Lost { .. } | NodeError::Unavailable { .. } => false,
    }
}

pub(crate) fn unavailable(detail: &str) -> Unavailable {
    Unavailable::new(Dependency::Runtime, detail)
}
