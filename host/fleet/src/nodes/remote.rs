//! Nodes in processes of their own, called over mutual TLS.
//!
//! The fleet believes a node's receipts only, which it verifies under the pinned identities. A certificate says no more than which
//! process answers.

use crate::fleet::{FindBundle, Fleet};
use crate::node::{Nodes, RuntimeNode};
use async_trait::async_trait;
use gateway_domain::contribution::{HelperAdmission, RecoveryCase};
use gateway_domain::error_chain;
use gateway_domain::ids::{KeyId, OperationId};
use gateway_domain::key::Epoch;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::wire::{
    BUNDLE_UNKNOWN, CallContext, ExecuteAnswer, ExecuteBody, MissingSharesAnswer, MissingSharesRequest,
    NodeAdmissionDecisionRequest, Nothing, OfferBundleRequest, Package, PolicyReceiptAnswer, ReceiptAnswer,
    Slot, Start, StepRequest, WireFault,
};
use gateway_node::{
    AdmitRequest, BundleOffer, Call, CeremonyAnswer, CeremonyStart, Code, CommitEpoch, Discard, Envelope,
    NodeError, NodeRejection, NodeStatus, PolicyReceipt, Publication, RoundOne, ShownReceipt, SignedShare,
};
use gateway_seal::node_key::NodeIdentity;
use gateway_service::client::{CallError, ServiceClient, Url};
use gateway_threshold::SignatureProfile;
use gateway_threshold::sign::SigningPackage;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Time limit of a step. A node writes in milliseconds; a slow one costs this much only when it is needed.
const STEP_WITHIN: Duration = Duration::from_secs(10);

/// Time limit of a step of a ceremony: with 64 participants a node computes for seconds.
const CEREMONY_WITHIN: Duration = Duration::from_secs(50);

/// Time limit of an offered bundle: the node compiles it and runs its test vectors.
const OFFER_WITHIN: Duration = Duration::from_secs(50);

/// Time limit of a question about the node's state.
const STATUS_WITHIN: Duration = Duration::from_secs(2);

/// A node's address and its pinned identity.
#[derive(Clone, Debug)]
pub struct NodeAddress {
    /// `https://host:port`. The node's certificate must be for the host.
    pub url: Url,
    /// The identity, which the operator pinned.
    pub identity: NodeIdentity,
}

/// The nodes of a deployment, each in a process of its own.
pub struct RemoteNodes {
    nodes: BTreeMap<ParticipantIndex, (Arc<RemoteNode>, NodeIdentity)>,
}

/// A fleet of nodes in processes of their own.
pub type RemoteFleet = Fleet<RemoteNodes>;

impl RemoteFleet {
    /// A fleet of these nodes. Connects to none.
    #[must_use]
    pub fn new(client: &ServiceClient, nodes: Vec<NodeAddress>, bundles: Arc<dyn FindBundle>) -> Self {
        let node = |NodeAddress { url, identity }: NodeAddress| {
            let node = Arc::new(RemoteNode { client: client.clone(), url, newest: Mutex::default() });
            (ParticipantIndex(identity.index()), (node, identity))
        };
        Self::of(RemoteNodes { nodes: nodes.into_iter().map(node).collect() }, bundles)
    }
}

#[async_trait]
impl Nodes for RemoteNodes {
    type Node = RemoteNode;

    const WAITS_FOR_ALL: bool = false;

    async fn node(&self, participant: ParticipantIndex) -> Result<Arc<RemoteNode>, NodeError> {
        let found = self.nodes.get(&participant).map(|(node, _)| Arc::clone(node));
        found.ok_or_else(|| unavailable("the deployment has no node for the participant"))
    }

    fn pinned(&self, participant: ParticipantIndex) -> Option<NodeIdentity> {
        self.nodes.get(&participant).map(|(_, identity)| identity.clone())
    }

    fn known(&self) -> BTreeSet<ParticipantIndex> {
        self.nodes.keys().copied().collect()
    }

    /// Each node does so by itself.
    async fn check_next_rows(&self) {}
}

/// A node in a process of its own.
pub struct RemoteNode {
    client: ServiceClient,
    url: Url,
    /// Sent with every request, so that showing it takes no round of its own.
    newest: Mutex<Option<ShownReceipt>>,
}

impl RemoteNode {
    /// Sends a step's request.
    async fn step<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        call: &Call,
        slot: Slot,
        body: B,
        within: Duration,
    ) -> Result<T, NodeError> {
        let Call { effect, .. } = call;
        let context = CallContext::new(call, slot)?;
        let path = format!("steps/{}", effect.step.as_str());
        self.post(effect.operation, &path, &StepRequest { context, newest: self.newest(), body }, within)
            .await
    }

    async fn post<Q: Serialize + Sync, T: DeserializeOwned>(
        &self,
        id: OperationId,
        path: &str,
        request: &Q,
        within: Duration,
    ) -> Result<T, NodeError> {
        let url = self.join(&format!("v1/node/operations/{id}/{path}"))?;
        self.client.post(url, request, within).await.map_err(node_error)
    }

    fn newest(&self) -> Option<ShownReceipt> {
        self.newest.lock().clone()
    }

    fn join(&self, path: &str) -> Result<Url, NodeError> {
        self.url.join(path).map_err(|_| unavailable("the node's URL has no such path"))
    }

    async fn receipt<B: Serialize + Sync>(&self, call: &Call, body: B) -> Result<NodeReceipt, NodeError> {
        let ReceiptAnswer { receipt } = self.step(call, Slot::Step, body, STEP_WITHIN).await?;
        Ok(receipt)
    }

    async fn execute(
        &self,
        call: &Call,
        slot: Slot,
        body: ExecuteBody,
        within: Duration,
    ) -> Result<ExecuteAnswer, NodeError> {
        self.step(call, slot, body, within).await
    }
}

#[async_trait]
impl RuntimeNode for RemoteNode {
    async fn offer_bundle(&self, offer: BundleOffer) -> Result<(), NodeError> {
        let url = self.join("v1/node/bundles")?;
        let request = OfferBundleRequest::from(&offer);
        let Nothing {} = self.client.post(url, &request, OFFER_WITHIN).await.map_err(node_error)?;
        Ok(())
    }

    async fn show_newest(&self, newest: &ShownReceipt) -> Result<(), NodeError> {
        *self.newest.lock() = Some(newest.clone());
        Ok(())
    }

    async fn admit(
        &self,
        request: &AdmitRequest,
        profile: SignatureProfile,
    ) -> Result<NodeReceipt, NodeError> {
        let decision = request.unverified_decision()?;
        let now = gateway_service::now();
        let id = request.effect.operation;
        let mut request = NodeAdmissionDecisionRequest::new(request, &decision, profile.name(), now)?;
        request.newest = self.newest();
        let ReceiptAnswer { receipt } = self.post(id, "admission", &request, STEP_WITHIN).await?;
        Ok(receipt)
    }

    async fn policy_receipt(&self, call: &Call) -> Result<PolicyReceipt, NodeError> {
        let answer: PolicyReceiptAnswer = self.step(call, Slot::Step, Nothing {}, STEP_WITHIN).await?;
        answer.try_into().map_err(malformed)
    }

    async fn signing_commit(&self, call: &Call, discarded: &[AttemptReceipt]) -> Result<RoundOne, NodeError> {
        let body = ExecuteBody { discarded: discarded.to_vec(), ..ExecuteBody::default() };
        let answer = self.execute(call, Slot::Commitments, body, STEP_WITHIN).await?;
        answer.into_round_one().map_err(malformed)
    }

    async fn signing_share(&self, call: &Call, package: &SigningPackage) -> Result<SignedShare, NodeError> {
        let body = ExecuteBody { package: Some(Package::new(package)?), ..ExecuteBody::default() };
        let answer = self.execute(call, Slot::Share, body, STEP_WITHIN).await?;
        answer.into_share().map_err(malformed)
    }

    async fn ceremony_start(&self, call: &Call, start: &CeremonyStart) -> Result<CeremonyAnswer, NodeError> {
        let discarded = start.discarded.clone();
        let body = ExecuteBody { start: Some(Start::from(start)), discarded, ..ExecuteBody::default() };
        let answer = self.execute(call, Slot::CeremonyStart, body, CEREMONY_WITHIN).await?;
        answer.into_ceremony().map_err(malformed)
    }

    async fn ceremony_deliver(&self, call: &Call, mail: &[Envelope]) -> Result<CeremonyAnswer, NodeError> {
        let body = ExecuteBody { messages: Some(mail.to_vec()), ..ExecuteBody::default() };
        let answer = self.execute(call, Slot::CeremonyMessages, body, CEREMONY_WITHIN).await?;
        answer.into_ceremony().map_err(malformed)
    }

    async fn commit_epoch(&self, call: &Call, commit: &CommitEpoch) -> Result<NodeReceipt, NodeError> {
        self.receipt(call, commit).await
    }

    async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError> {
        self.receipt(call, publication).await
    }

    async fn discard_attempt(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        let answer = self.execute(call, Slot::DiscardAttempt, ExecuteBody::default(), STEP_WITHIN).await?;
        answer.into_discarded().map_err(malformed)
    }

    async fn discard(&self, call: &Call, discard: &Discard) -> Result<NodeReceipt, NodeError> {
        self.receipt(call, discard).await
    }

    async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<BTreeMap<KeyId, String>, NodeError> {
        let url = self.join("v1/node/keys/missing-shares")?;
        let request = MissingSharesRequest { keys: keys.to_vec() };
        let answer = self.client.post(url, &request, STEP_WITHIN).await;
        let MissingSharesAnswer { missing } = answer.map_err(node_error)?;
        Ok(missing)
    }

    async fn contribution(&self, case: &RecoveryCase) -> Result<HelperAdmission, NodeError> {
        let url = self.join("v1/node/keys/contributions")?;
        self.client.post(url, case, STEP_WITHIN).await.map_err(node_error)
    }

    async fn status(&self) -> Result<NodeStatus, NodeError> {
        self.client.get(self.join("v1/node/status")?, STATUS_WITHIN).await.map_err(node_error)
    }
}

/// The node's own error if it answered with one. Whatever else it answered is no statement about the operation.
fn node_error(error: CallError) -> NodeError {
    match error {
        CallError::Refused { body, .. } => {
            if let Some(code) = Code::parse(&body.error) {
                let culprits = body.culprits.into_iter().map(ParticipantIndex).collect();
                return NodeRejection { code, detail: body.message, culprits, complaint: body.complaint }
                    .into();
            }
            if let (BUNDLE_UNKNOWN, Ok(bundle_hash)) = (body.error.as_str(), body.message.parse()) {
                return NodeError::BundleUnknown { bundle_hash };
            }
            if body.error == "attempt_lost" {
                return NodeError::Lost { reason: Cow::Owned(body.message) };
            }
            NodeError::Unavailable { detail: Cow::Owned(body.message), source: None }
        }
        CallError::NoAnswer(source) => {
            let detail = Cow::Owned(format!("the node does not answer: {}", error_chain(source.as_ref())));
            NodeError::Unavailable { detail, source: None }
        }
        CallError::Malformed(source) => {
            let detail = Cow::Borrowed("the node's answer has another form than expected");
            NodeError::Unavailable { detail, source: Some(source) }
        }
    }
}

fn malformed(fault: WireFault) -> NodeError {
    let detail = Cow::Owned(format!("the node's answer has another form than expected: {fault}"));
    NodeError::Unavailable { detail, source: None }
}

fn unavailable(detail: &'static str) -> NodeError {
    NodeError::Unavailable { detail: Cow::Borrowed(detail), source: None }
}
