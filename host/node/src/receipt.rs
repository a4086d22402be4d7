//! The node's signed word.
//!
//! Ed25519 signs the same bytes the same way (RFC 8032), and a statement follows from what the node has stored: no receipt
//! needs a place of its own, and a repeat is answered with the very receipt that was given before.

use crate::error::NodeError;
use crate::node::Node;
use gateway_domain::receipt::{Chain, NodeReceipt, PAYLOAD_TYPE, ReceiptKind, ReceiptStatement, Signature};

impl Node {
    /// The word that this node has done this. Only for what is durable.
    pub(crate) fn receipt(&self, chain: &Chain, deed: &ReceiptKind) -> Result<NodeReceipt, NodeError> {
        self.attest(&chain.statement(deed)?)
    }

    pub(crate) fn attest(&self, statement: &ReceiptStatement) -> Result<NodeReceipt, NodeError> {
        #[cfg(feature = "testing")]
        if let Some(lie) = self.lies.instead_of(statement) {
            return Ok(lie);
        }
        self.sign_receipt(statement)
    }

    pub(crate) fn sign_receipt(&self, statement: &ReceiptStatement) -> Result<NodeReceipt, NodeError> {
        let signature = self.secret().sign_statement(PAYLOAD_TYPE, &statement.payload()?);
        Ok(NodeReceipt {
            participant: statement.participant,
            transition_hash: statement.transition_hash,
            signature: Signature::new(signature),
        })
    }
}
