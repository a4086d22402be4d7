//! A node as the fleet calls it: in this process, or behind HTTP. Both make the same checks, since both are a [`Node`].

use async_trait::async_trait;
use gateway_domain::contribution::{HelperAdmission, RecoveryCase};
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{
    AdmitRequest, BundleOffer, Call, CeremonyAnswer, CeremonyStart, CommitEpoch, Discard, Envelope, Node,
    NodeError, NodeStatus, PolicyReceipt, Publication, RoundOne, ShownReceipt, SignedShare,
};
use gateway_seal::node_key::NodeIdentity;
use gateway_threshold::SignatureProfile;
use gateway_threshold::sign::SigningPackage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The steps of a node. Each is the method of [`Node`] with its name, and has its errors.
#[async_trait]
pub trait RuntimeNode: Send + Sync + 'static {
    /// Shows the node a receipt of its own, the newest that the caller knows. A node that was restored from an older copy of its
    /// database stops.
    async fn show_newest(&self, newest: &ShownReceipt) -> Result<(), NodeError>;
    /// Verifies a policy bundle and keeps it.
    async fn offer_bundle(&self, offer: BundleOffer) -> Result<(), NodeError>;
    /// Verifies a decision and stores it. `profile` is the key's, for the announcement on the wire.
    async fn admit(
        &self,
        request: &AdmitRequest,
        profile: SignatureProfile,
    ) -> Result<NodeReceipt, NodeError>;
    /// Records that execution may begin; for a signature, with commitments for its first attempt.
    async fn policy_receipt(&self, call: &Call) -> Result<PolicyReceipt, NodeError>;
    /// Round one of a signature, with nodes' receipts for earlier attempts that they will not complete.
    async fn signing_commit(&self, call: &Call, discarded: &[AttemptReceipt]) -> Result<RoundOne, NodeError>;
    /// Round two of a signature.
    async fn signing_share(&self, call: &Call, package: &SigningPackage) -> Result<SignedShare, NodeError>;
    /// Begins an attempt at a ceremony.
    async fn ceremony_start(&self, call: &Call, start: &CeremonyStart) -> Result<CeremonyAnswer, NodeError>;
    /// Handles other participants' messages.
    async fn ceremony_deliver(&self, call: &Call, mail: &[Envelope]) -> Result<CeremonyAnswer, NodeError>;
    /// Promotes the staged generation.
    async fn commit_epoch(&self, call: &Call, commit: &CommitEpoch) -> Result<NodeReceipt, NodeError>;
    /// Records the publication of the result.
    async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError>;
    /// Discards an attempt that the node has not completed.
    async fn discard_attempt(&self, call: &Call) -> Result<NodeReceipt, NodeError>;
    /// Discards the operation.
    async fn discard(&self, call: &Call, discard: &Discard) -> Result<NodeReceipt, NodeError>;
    /// The keys whose epoch is not the one that the node signs with, each with what the node holds instead.
    async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<BTreeMap<KeyId, String>, NodeError>;
    /// What the node would contribute to a recovery.
    async fn contribution(&self, case: &RecoveryCase) -> Result<HelperAdmission, NodeError>;
    /// The damage that the node found in its database.
    async fn status(&self) -> Result<NodeStatus, NodeError>;
}

#[async_trait]
impl RuntimeNode for Node {
    async fn offer_bundle(&self, offer: BundleOffer) -> Result<(), NodeError> {
        self.offer_bundle(offer).await
    }

    async fn show_newest(&self, newest: &ShownReceipt) -> Result<(), NodeError> {
        self.show_newest(newest).await
    }

    async fn admit(&self, request: &AdmitRequest, _: SignatureProfile) -> Result<NodeReceipt, NodeError> {
        self.admit(request).await
    }

    async fn policy_receipt(&self, call: &Call) -> Result<PolicyReceipt, NodeError> {
        self.policy_receipt(call).await
    }

    async fn signing_commit(&self, call: &Call, discarded: &[AttemptReceipt]) -> Result<RoundOne, NodeError> {
        self.signing_commit(call, discarded).await
    }

    async fn signing_share(&self, call: &Call, package: &SigningPackage) -> Result<SignedShare, NodeError> {
        self.signing_share(call, package).await
    }

    async fn ceremony_start(&self, call: &Call, start: &CeremonyStart) -> Result<CeremonyAnswer, NodeError> {
        self.ceremony_start(call, start).await
    }

    async fn ceremony_deliver(&self, call: &Call, mail: &[Envelope]) -> Result<CeremonyAnswer, NodeError> {
        self.ceremony_deliver(call, mail).await
    }

    async fn commit_epoch(&self, call: &Call, commit: &CommitEpoch) -> Result<NodeReceipt, NodeError> {
        self.commit_epoch(call, commit).await
    }

    async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError> {
        self.publish(call, publication).await
    }

    async fn discard_attempt(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        self.discard_attempt(call).await
    }

    async fn discard(&self, call: &Call, discard: &Discard) -> Result<NodeReceipt, NodeError> {
        self.discard(call, discard).await
    }

    async fn missing_shares(&self, keys: &[(KeyId, Epoch)]) -> Result<BTreeMap<KeyId, String>, NodeError> {
        Ok(self.missing_shares(keys).await?.into_iter().collect())
    }

    async fn contribution(&self, case: &RecoveryCase) -> Result<HelperAdmission, NodeError> {
        self.contribution(case).await
    }

    async fn status(&self) -> Result<NodeStatus, NodeError> {
        Ok(self.status().await)
    }
}

/// Where the fleet finds its nodes.
#[async_trait]
pub trait Nodes: Send + Sync + 'static {
    /// A node.
    type Node: RuntimeNode;

    /// Whether a step waits for every node's answer. Otherwise it goes on when enough nodes have answered: one that is slow or
    /// stopped costs nothing.
    const WAITS_FOR_ALL: bool;

    /// A participant's node.
    async fn node(&self, participant: ParticipantIndex) -> Result<Arc<Self::Node>, NodeError>;

    /// The identity that is pinned for this participant.
    fn pinned(&self, participant: ParticipantIndex) -> Option<NodeIdentity>;

    /// The participants that have a node already.
    fn known(&self) -> BTreeSet<ParticipantIndex>;

    /// Checks some more rows of each node that does not do so by itself.
    async fn check_next_rows(&self);
}
