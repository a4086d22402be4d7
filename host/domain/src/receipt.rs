//! Signed receipts: a node's word for every step it made, which anybody can check who has its public key.
//!
//! A node signs a [`ReceiptStatement`]: which step of which operation it made, where that left its own chain of steps
//! ([`Chain`]), and what the step was about ([`ReceiptKind::subject`]). Nothing of the statement is sent or stored beside the
//! signature but [`NodeReceipt::transition_hash`]: whoever checks a receipt builds the statement from what *they* know of
//! the operation, so that a receipt for anything else does not verify.
//!
//! The gateway checks each receipt before it counts or records it; [`attested`] lets anybody do the same again with the
//! operation's events alone.

mod chain;
mod kind;
mod signature;
#[cfg(test)]
pub(crate) mod tests;

pub use chain::Chain;
pub use kind::{PolicyBasis, ReceiptKind};
pub use signature::{InvalidSignature, Signature};

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

/// What a node states with a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiptStatement {
    /// The operation.
    pub operation_id: OperationId,
    /// The node.
    pub participant: ParticipantIndex,
    /// The step it made.
    pub step: EffectStep,
    /// The attempt at the ceremony, for `execute`; 1 for every other step, which happens once however often it was asked
    /// for.
    pub attempt: u32,
    /// The decision it acted on.
    pub admission_hash: Hex32,
    /// Head of its chain of this operation's steps after this one.
    pub transition_hash: Hex32,
    /// What the step was about: see [`ReceiptKind::subject`].
    pub subject: Hex32,
}

impl ReceiptStatement {
    /// The canonical bytes: the payload of the signature.
    ///
    /// # Errors
    /// [`CanonicalError`], which a statement does not give.
    pub fn payload(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_bytes(self)
    }
}

/// A node's signed word that it made a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReceipt {
    /// Which node.
    pub participant: ParticipantIndex,
    /// Head of the node's own chain of this operation's steps after this one.
    pub transition_hash: Hex32,
    /// Over the DSSE pre-authentication encoding of the statement's [payload](ReceiptStatement::payload).
    #[serde(rename = "node_signature")]
    pub signature: Signature,
}

/// Whose receipts these are.
#[must_use]
pub fn participants(receipts: &[NodeReceipt]) -> BTreeSet<ParticipantIndex> {
    receipts.iter().map(|receipt| receipt.participant).collect()
}

/// Why a receipt is not believed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// It speaks for another node.
    #[error("the receipt is of participant {0}")]
    OtherParticipant(ParticipantIndex),
    /// It is of another step, attempt, operation or decision.
    #[error("the receipt ends in another transition")]
    OtherTransition,
    /// The node did not sign this statement.
    #[error("the receipt is not signed by the node over this step and its subject")]
    BadSignature,
    /// The key it is to be checked under is none.
    #[error("the node's key is not an Ed25519 public key")]
    BadKey,
    /// The statement has no canonical form.
    #[error("the statement has no canonical form")]
    NotCanonical(#[from] CanonicalError),
}

impl NodeReceipt {
    /// Checks that the node with this Ed25519 key signed exactly this statement.
    ///
    /// # Errors
    /// [`ReceiptError`].
    pub fn verify(&self, statement: &ReceiptStatement, public_key: &[u8; 32]) -> Result<(), ReceiptError> {
        if self.participant != statement.participant {
            return Err(ReceiptError::OtherParticipant(self.participant));
        }
        if self.transition_hash != statement.transition_hash {
            return Err(ReceiptError::OtherTransition);
        }
        let key = PublicKey::from_bytes(public_key).ok_or(ReceiptError::BadKey)?;
        let signed = pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload()?);
        if key.verifies(&signed, self.signature.as_bytes()) {
            Ok(())
        } else {
            Err(ReceiptError::BadSignature)
        }
    }
}
