//! The steps that nodes acknowledge.

use crate::acks::{acked, acked_forward};
use crate::calls::{Calls, unavailable};
use crate::fan_out::{Answer, Answers};
use crate::fleet::EmbeddedFleet;
use gateway_domain::operation::{Effect, EffectStep, Outcome, Plan};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{AdmitRequest, Call, Code, CommitEpoch, Node, NodeError, Publication};
use std::collections::BTreeSet;
use std::sync::Arc;

type Nodes = BTreeSet<ParticipantIndex>;

/// The steps that come before one, for a node that was away when they were made.
pub(crate) struct Missed {
    admit: Arc<AdmitRequest>,
    receipt: Option<Call>,
    commit: Option<(Call, CommitEpoch)>,
}

/// As [`Missed`], for any node.
pub(crate) struct Before<'a> {
    calls: &'a Calls<'a>,
    admit: Arc<AdmitRequest>,
}

impl Before<'_> {
    /// What a node may have missed before the receipt.
    pub(crate) fn receipt(&self) -> Missed {
        Missed { admit: Arc::clone(&self.admit), receipt: None, commit: None }
    }

    /// What a node may have missed before the ceremony.
    pub(crate) fn ceremony(&self, node: ParticipantIndex) -> Result<Missed, Unavailable> {
        let receipt = Some(self.calls.missed(EffectStep::PolicyReceipt, node)?);
        Ok(Missed { admit: Arc::clone(&self.admit), receipt, commit: None })
    }

    /// What a node may have missed before the publication: one that leaves was not waited for.
    pub(crate) fn publication(&self, node: ParticipantIndex) -> Result<Missed, Unavailable> {
        let commit = match commit_epoch(self.calls) {
            Some(commit) => Some((self.calls.missed(EffectStep::CommitEpoch, node)?, commit)),
            None => None,
        };
        Ok(Missed { commit, ..self.ceremony(node)? })
    }
}

impl Missed {
    pub(crate) fn before<'a>(calls: &'a Calls<'a>) -> Result<Before<'a>, Unavailable> {
        Ok(Before { calls, admit: Arc::new(calls.admit()?) })
    }

    /// Asks; a node that says the step is out of order is brought up to date and asked once more.
    pub(crate) async fn bring<'f, T>(
        &self,
        node: &Node,
        ask: impl Fn() -> Answer<'f, T>,
    ) -> Result<T, NodeError> {
        match ask().await {
            Err(NodeError::Rejected(rejection)) if rejection.code == Code::StepOutOfOrder => {
                node.admit(&self.admit).await?;
                if let Some(receipt) = &self.receipt {
                    node.materialize_receipt(receipt).await?;
                }
                if let Some((call, commit)) = &self.commit {
                    node.commit_epoch(call, commit).await?;
                }
                ask().await
            }
            answer => answer,
        }
    }
}

impl EmbeddedFleet {
    pub(crate) async fn apply_admission(
        &self,
        calls: Calls<'_>,
        nodes: &Nodes,
        plan: &Plan,
    ) -> Result<Outcome, Unavailable> {
        let request = &calls.admit()?;
        let questions = nodes.iter().map(|node| (*node, ())).collect();
        let admit =
            |node: Arc<Node>, ()| -> Answer<'_, _> { Box::pin(async move { node.admit(request).await }) };
        let answers = self.ask(questions, "mid-admission", admit).await;
        acked(self.attested(&calls, &ReceiptKind::Admitted, answers, itself), plan)
    }

    pub(crate) async fn materialize_receipt(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        nodes: &Nodes,
        plan: &Plan,
    ) -> Result<Outcome, Unavailable> {
        let before = Missed::before(&calls)?;
        let ask = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move { missed.bring(&node, || Box::pin(node.materialize_receipt(&call))).await })
        };
        let questions = questions(calls, effect, nodes, |_| Ok(before.receipt()))?;
        let answers = self.ask(questions, "mid-policy-receipt", ask).await;
        acked(
            self.attested(&calls, &ReceiptKind::PolicyReceipt(calls.decision.into()), answers, itself),
            plan,
        )
    }

    pub(crate) async fn commit_epoch(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        nodes: &Nodes,
    ) -> Result<Outcome, Unavailable> {
        let commit = &commit_epoch(&calls).ok_or_else(|| unavailable("nothing was staged"))?;
        let CommitEpoch { attempt, epoch_root } = *commit;
        let ask = |node: Arc<Node>, (call, ()): (Call, ())| -> Answer<'_, _> {
            Box::pin(async move { node.commit_epoch(&call, commit).await })
        };
        // Those that leave are told at once and not waited for.
        let plan = calls.operation.plan().ok_or_else(|| unavailable("the operation has no plan"))?;
        let told = plan.nodes.difference(&plan.receivers).chain(nodes).copied().collect();
        let questions = questions(calls, effect, &told, |_| Ok(()))?;
        let mut answers = self.ask(questions, "mid-commit-epoch", ask).await;
        answers.retain(|node, _| nodes.contains(node));
        acked_forward(self.attested(&calls, &ReceiptKind::Promoted { attempt, epoch_root }, answers, itself))
    }

    pub(crate) async fn publish(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        nodes: &Nodes,
    ) -> Result<Outcome, Unavailable> {
        let result_ref =
            calls.operation.result_ref.ok_or_else(|| unavailable("the operation has no result"))?;
        let attempt = calls.operation.executed_attempt();
        let publication = &Publication { attempt, result: calls.result()? };
        let operation_type = calls.decision.operation_type;
        let deed = ReceiptKind::Published { attempt, operation_type, result_ref };
        let before = Missed::before(&calls)?;
        let ask = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move { missed.bring(&node, || Box::pin(node.publish(&call, publication))).await })
        };
        let questions = questions(calls, effect, nodes, |node| before.publication(node))?;
        let answers = self.ask(questions, "mid-publish", ask).await;
        acked_forward(self.attested(&calls, &deed, answers, itself))
    }

    pub(crate) async fn discard(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        nodes: &Nodes,
    ) -> Result<Outcome, Unavailable> {
        let ask = |node: Arc<Node>, (call, ()): (Call, ())| -> Answer<'_, _> {
            Box::pin(async move { node.discard(&call).await })
        };
        let questions = questions(calls, effect, nodes, |_| Ok(()))?;
        let answers: Answers<NodeReceipt> = self.ask(questions, "mid-discard", ask).await;
        acked_forward(self.attested(&calls, &ReceiptKind::Discarded, answers, itself))
    }
}

/// Where the answer is the receipt.
const fn itself(receipt: &NodeReceipt) -> &NodeReceipt {
    receipt
}

/// The promotion of what the operation staged; none for a signature.
fn commit_epoch(calls: &Calls<'_>) -> Option<CommitEpoch> {
    let epoch_root = calls.operation.staged.as_deref()?.epoch.root;
    Some(CommitEpoch { attempt: calls.operation.executed_attempt(), epoch_root })
}

/// By node: its call, and whatever else it is asked.
pub(crate) type Questions<Q> = Vec<(ParticipantIndex, (Call, Q))>;

/// Each node's own call, with whatever else it is asked.
pub(crate) fn questions<Q>(
    calls: Calls<'_>,
    effect: &Effect,
    nodes: &Nodes,
    more: impl Fn(ParticipantIndex) -> Result<Q, Unavailable>,
) -> Result<Questions<Q>, Unavailable> {
    let question = |node: &ParticipantIndex| Ok((*node, (calls.call(effect, *node)?, more(*node)?)));
    nodes.iter().map(question).collect()
}
