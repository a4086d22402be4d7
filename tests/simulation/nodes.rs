//! The fleet's nodes, each behind the simulated network.

use crate::network::{Body, Claim, Handled, Message, Network, NodeWork, Origin, Peer, Slot};
use crate::parts::N_NODES;
use async_trait::async_trait;
use gateway_domain::contribution::{HelperAdmission, RecoveryCase};
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::key::Epoch;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt};
use gateway_domain::roster::ParticipantIndex;
use gateway_fleet::{Nodes, RuntimeNode};
use gateway_node::{
    AdmitRequest, BundleOffer, Call, CeremonyAnswer, CeremonyStart, CommitEpoch, Discard, Envelope, Node,
    NodeError, NodeStatus, Peers, PolicyReceipt, Publication, RoundOne, ShownReceipt, SignedShare,
};
use gateway_threshold::SignatureProfile;
use gateway_threshold::sign::SigningPackage;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The nodes as one replica reaches them.
pub(crate) struct FarNodes {
    nodes: Vec<Arc<FarNode>>,
    peers: Arc<Peers>,
}

impl FarNodes {
    pub(crate) fn new(network: &Network, origin: Origin, peers: Arc<Peers>) -> Self {
        let node = |index| {
            let network = network.clone();
            Arc::new(FarNode { network, origin, index, newest: Mutex::default() })
        };
        Self { nodes: (0..N_NODES).map(node).collect(), peers }
    }
}

#[async_trait]
impl Nodes for FarNodes {
    type Node = FarNode;

    /// As with nodes in processes of their own.
    const WAITS_FOR_ALL: bool = false;

    async fn node(&self, participant: ParticipantIndex) -> Result<Arc<FarNode>, NodeError> {
        let node = self.nodes.get(usize::from(participant.0)).map(Arc::clone);
        node.ok_or_else(no_answer)
    }

    fn pinned(&self, participant: ParticipantIndex) -> Option<gateway_seal::node_key::NodeIdentity> {
        self.peers.pinned(participant)
    }

    fn known(&self) -> BTreeSet<ParticipantIndex> {
        (0..N_NODES).map(ParticipantIndex).collect()
    }

    async fn check_next_rows(&self) {}
}

/// One node, far away.
pub(crate) struct FarNode {
    network: Network,
    origin: Origin,
    index: u16,
    /// Sent with each request, as to a node in a process of its own.
    newest: Mutex<Option<ShownReceipt>>,
}

fn no_answer() -> NodeError {
    NodeError::Unavailable { detail: Cow::Borrowed("the node does not answer"), source: None }
}

fn word<T>(answer: &Result<T, NodeError>) -> String {
    match answer {
        Ok(_) => "ok".to_owned(),
        Err(NodeError::Rejected(rejection)) => rejection.code.as_str().to_owned(),
        Err(NodeError::Lost { .. }) => "attempt_lost".to_owned(),
        Err(NodeError::BundleUnknown { .. }) => "bundle_unknown".to_owned(),
        // A text of the program's own: the error behind it, which may name random values, is left out.
        Err(NodeError::Unavailable { detail, .. }) => format!("unavailable, {detail}"),
    }
}

impl FarNode {
    /// Sends what `sent` says. `call` makes the call at the node, once for each time that the message is delivered.
    async fn ask<S, T, F>(
        &self,
        point: &'static str,
        operation: Option<OperationId>,
        claim: Claim,
        sent: S,
        call: impl Fn(Arc<Node>, S) -> F + Send + Sync + 'static,
    ) -> Result<T, NodeError>
    where
        S: Clone + Send + Sync + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T, NodeError>> + Send + 'static,
    {
        let (slot, answer) = Slot::new();
        let failed = Arc::clone(&slot);
        let newest = self.newest.lock().unwrap().clone();
        let size_shown = newest.as_ref().map_or(0, |newest| newest.receipt.log_index + 1);
        let work: NodeWork = Arc::new(move |node: Arc<Node>| {
            let (slot, newest) = (Arc::clone(&slot), newest.clone());
            let step = call(Arc::clone(&node), sent.clone());
            Box::pin(async move {
                let shown = match &newest {
                    Some(newest) => node.show_newest(newest).await,
                    None => Ok(()),
                };
                let answer = match shown {
                    Ok(()) => step.await,
                    Err(error) => Err(error),
                };
                Handled { outcome: word(&answer), hand_over: Box::new(move || slot.put(answer)) }
            })
        });
        self.network.send(Message {
            due: 0,
            origin: self.origin,
            peer: Peer::Node(self.index),
            point,
            operation,
            claim,
            size_shown,
            body: Body::Node(work),
            fail: Arc::new(move || failed.put(Err(no_answer()))),
            is_late: false,
        });
        answer.await
    }

    async fn step<S, T, F>(
        &self,
        point: &'static str,
        call: &Call,
        sent: S,
        step: impl Fn(Arc<Node>, (Call, S)) -> F + Send + Sync + 'static,
    ) -> Result<T, NodeError>
    where
        S: Clone + Send + Sync + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T, NodeError>> + Send + 'static,
    {
        self.ask(point, Some(call.effect.operation), Claim::Nothing, (*call, sent), step).await
    }
}

#[async_trait]
impl RuntimeNode for FarNode {
    async fn show_newest(&self, newest: &ShownReceipt) -> Result<(), NodeError> {
        *self.newest.lock().unwrap() = Some(newest.clone());
        Ok(())
    }

    async fn offer_bundle(&self, offer: BundleOffer) -> Result<(), NodeError> {
        let call = |node: Arc<Node>, offer| async move { node.offer_bundle(offer).await };
        self.ask("offer_bundle", None, Claim::Nothing, offer, call).await
    }

    async fn admit(&self, request: &AdmitRequest, _: SignatureProfile) -> Result<NodeReceipt, NodeError> {
        let call = |node: Arc<Node>, sent: Arc<_>| async move { node.admit(&sent).await };
        let sent = Arc::new(request.clone());
        self.ask("admission", Some(request.effect.operation), Claim::Nothing, sent, call).await
    }

    async fn policy_receipt(&self, call: &Call) -> Result<PolicyReceipt, NodeError> {
        let step = |node: Arc<Node>, (call, ())| async move { node.policy_receipt(&call).await };
        self.step("policy_receipt", call, (), step).await
    }

    async fn signing_commit(&self, call: &Call, discarded: &[AttemptReceipt]) -> Result<RoundOne, NodeError> {
        let step = |node: Arc<Node>, (call, sent): (_, Vec<_>)| async move {
            node.signing_commit(&call, &sent).await
        };
        self.step("commitments", call, discarded.to_vec(), step).await
    }

    async fn signing_share(&self, call: &Call, package: &SigningPackage) -> Result<SignedShare, NodeError> {
        let claim = Claim::Share {
            commitments: package.commitments.get(&self.index).cloned().unwrap_or_default(),
            package_hash: Hex32::new(package.hash()),
        };
        let step = |node: Arc<Node>, (call, sent): (_, Arc<_>)| async move {
            node.signing_share(&call, &sent).await
        };
        let sent = (*call, Arc::new(package.clone()));
        self.ask("share", Some(call.effect.operation), claim, sent, step).await
    }

    async fn ceremony_start(&self, call: &Call, start: &CeremonyStart) -> Result<CeremonyAnswer, NodeError> {
        let step = |node: Arc<Node>, (call, sent): (_, Arc<_>)| async move {
            node.ceremony_start(&call, &sent).await
        };
        self.step("ceremony_start", call, Arc::new(start.clone()), step).await
    }

    async fn ceremony_deliver(&self, call: &Call, mail: &[Envelope]) -> Result<CeremonyAnswer, NodeError> {
        let step = |node: Arc<Node>, (call, sent): (_, Arc<[_]>)| async move {
            node.ceremony_deliver(&call, &sent).await
        };
        self.step("ceremony_messages", call, Arc::from(mail), step).await
    }

    async fn commit_epoch(&self, call: &Call, commit: &CommitEpoch) -> Result<NodeReceipt, NodeError> {
        let step =
            |node: Arc<Node>, (call, sent): (_, Arc<_>)| async move { node.commit_epoch(&call, &sent).await };
        self.step("commit_epoch", call, Arc::new(commit.clone()), step).await
    }

    async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError> {
        let step =
            |node: Arc<Node>, (call, sent): (_, Arc<_>)| async move { node.publish(&call, &sent).await };
        self.step("publish", call, Arc::new(publication.clone()), step).await
    }

    async fn discard_attempt(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        let step = |node: Arc<Node>, (call, ())| async move { node.discard_attempt(&call).await };
        self.step("discard_attempt", call, (), step).await
    }

    async fn discard(&self, call: &Call, discard: &Discard) -> Result<NodeReceipt, NodeError> {
        let step = |node: Arc<Node>, (call, sent)| async move { node.discard(&call, &sent).await };
        self.step("discard", call, discard.clone(), step).await
    }

    async fn missing_shares(&self, _: &[(KeyId, Epoch)]) -> Result<BTreeMap<KeyId, String>, NodeError> {
        Err(no_answer())
    }

    async fn contribution(&self, _: &RecoveryCase) -> Result<HelperAdmission, NodeError> {
        Err(no_answer())
    }

    async fn status(&self) -> Result<NodeStatus, NodeError> {
        Err(no_answer())
    }
}
