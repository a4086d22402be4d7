//! Signed receipts: a node's signed statement for each step that it performed.
//!
//! A node signs a [`ReceiptStatement`]: the step and the operation, the new head of the node's own chain of steps
//! ([`Chain`]), and the subject of the step ([`ReceiptKind::subject`]). A receipt has only the participant, the
//! [`NodeReceipt::transition_hash`], the position in the node's log and the signature. A verifier builds the statement from *its own* knowledge of the
//! operation, so that a receipt for anything else does not verify.
//!
//! Each receipt has a position in its node's own log ([`node_log`](crate::node_log)), which the node signs too: a node signs at
//! most one statement for each position.
//!
//! The gateway verifies each receipt before it counts or records it. With
//! [`signed_receipts`](crate::operation::signed_receipts) an auditor does the same from the operation's events alone.

mod chain;
mod kind;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::ed25519::Signature;
pub use chain::Chain;
pub use kind::{PolicyBasis, ReceiptKind};

use crate::canonical::{self, CanonicalError};
use crate::dsse::pre_authentication_encoding;
use crate::ed25519::PublicKey;
use crate::ids::{Hex32, OperationId};
use crate::roster::ParticipantIndex;
use crate::step::EffectStep;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The DSSE payload type of a [`ReceiptStatement`].
pub const PAYLOAD_TYPE: &str = "application/vnd.svc.node-receipt.v1+json";

/// The statement that a node signs, together with its position in the node's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptStatement {
    /// The operation.
    pub operation_id: OperationId,
    /// The node.
    pub participant: ParticipantIndex,
    /// The step that the node performed.
    pub step: EffectStep,
    /// The attempt of the ceremony, for `execute` and for the `discard` of an attempt; 1 for every other step.
    pub attempt: u32,
    /// Hash of the decision that the node acted on.
    pub admission_hash: Hex32,
    /// Head of the node's chain of this operation's steps, after this one.
    pub transition_hash: Hex32,
    /// The subject of the step: see [`ReceiptKind::subject`].
    pub subject: Hex32,
}

impl ReceiptStatement {
    /// The canonical bytes of the statement with this position in the node's log: the payload of the signature.
    pub fn payload(&self, log_index: u64) -> Result<Vec<u8>, CanonicalError> {
        #[derive(Serialize)]
        struct Numbered<'a> {
            #[serde(flatten)]
            statement: &'a ReceiptStatement,
            log_index: u64,
        }
        canonical::to_bytes(&Numbered { statement: self, log_index })
    }
}

impl Chain {
    /// The statement that this node signs for a step.
    pub fn statement(&self, kind: &ReceiptKind) -> Result<ReceiptStatement, CanonicalError> {
        Ok(ReceiptStatement {
            operation_id: self.operation_id,
            participant: self.participant,
            step: kind.step(),
            attempt: kind.attempt(),
            admission_hash: self.admission_hash,
            transition_hash: kind.head(self)?,
            subject: kind.subject(self.admission_hash)?,
        })
    }
}

/// A node's receipt.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NodeReceiptView))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReceipt {
    /// The node, by index.
    pub participant: ParticipantIndex,
    /// The hash of the step, chained to the node's earlier ones of this operation.
    pub transition_hash: Hex32,
    /// The position of the receipt in the node's own log, from 0.
    pub log_index: u64,
    /// The node's Ed25519 signature over both.
    // Over the DSSE pre-authentication encoding of `ReceiptStatement::payload`.
    #[serde(rename = "node_signature")]
    pub signature: Signature,
}

/// A node's receipt that it will not complete an attempt: it discarded the attempt, or it signed another package in it, which a node
/// does once in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(from = "Members")]
pub struct AttemptReceipt {
    /// The receipt.
    #[serde(flatten)]
    pub receipt: NodeReceipt,
    /// Hash of the package that the node signed. `None` if it discarded the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_hash: Option<Hex32>,
}

/// The members of an [`AttemptReceipt`]. A reader of strict JSON finds other members beside them, which `flatten` would hide from it.
#[derive(Deserialize)]
struct Members {
    participant: ParticipantIndex,
    transition_hash: Hex32,
    log_index: u64,
    node_signature: Signature,
    #[serde(default)]
    package_hash: Option<Hex32>,
}

impl From<Members> for AttemptReceipt {
    fn from(members: Members) -> Self {
        let Members { participant, transition_hash, log_index, node_signature: signature, package_hash } =
            members;
        Self { receipt: NodeReceipt { participant, transition_hash, log_index, signature }, package_hash }
    }
}

impl AttemptReceipt {
    /// The kind of the receipt, for an attempt at signing this digest.
    #[must_use]
    pub const fn kind(&self, attempt: u32, signed_digest: Hex32) -> ReceiptKind {
        match self.package_hash {
            Some(package_hash) => ReceiptKind::Signed { attempt, signed_digest, package_hash },
            None => ReceiptKind::AttemptDiscarded { attempt },
        }
    }
}

/// That these nodes discarded an attempt, or the operation.
impl From<NodeReceipt> for AttemptReceipt {
    fn from(receipt: NodeReceipt) -> Self {
        Self { receipt, package_hash: None }
    }
}

/// The nodes of these receipts.
#[must_use]
pub fn participants(receipts: &[NodeReceipt]) -> BTreeSet<ParticipantIndex> {
    receipts.iter().map(|receipt| receipt.participant).collect()
}

/// The reason why a receipt does not verify.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The receipt is another node's.
    #[error("the receipt names participant {0}, not the expected one")]
    OtherParticipant(ParticipantIndex),
    /// The receipt is for another step, attempt, operation or decision.
    #[error("the receipt's transition hash is for another step, attempt, operation or decision")]
    OtherTransition,
    /// The node did not sign this statement.
    #[error("the receipt is not signed by the node over this step and its subject")]
    BadSignature,
    /// The node's public key is not a valid key.
    #[error("the node's key is not an Ed25519 public key")]
    BadKey,
    /// The statement has no canonical form.
    #[error("the statement has no canonical form")]
    NotCanonical(#[from] CanonicalError),
}

impl NodeReceipt {
    /// Checks that the node with this Ed25519 key signed exactly this statement, at the receipt's position in its log.
    pub fn verify(&self, statement: &ReceiptStatement, public_key: &[u8; 32]) -> Result<(), ReceiptError> {
        if self.participant != statement.participant {
            return Err(ReceiptError::OtherParticipant(self.participant));
        }
        if self.transition_hash != statement.transition_hash {
            return Err(ReceiptError::OtherTransition);
        }
        let key = PublicKey::from_bytes(public_key).ok_or(ReceiptError::BadKey)?;
        let signed = pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload(self.log_index)?);
        if key.verifies(&signed, self.signature.as_bytes()) {
            Ok(())
        } else {
            Err(ReceiptError::BadSignature)
        }
    }
}
