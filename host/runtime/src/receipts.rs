//! Whether a node's receipt is its word for what it was asked: checked before the answer counts for anything.

use crate::calls::Calls;
use crate::fan_out::Answers;
use crate::fleet::EmbeddedFleet;
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{Code, NodeError, Rejection};

impl EmbeddedFleet {
    /// The answers that come with their node's word for this deed. Any other becomes a refusal that names the node: it
    /// acknowledges nothing, and those of the others count as before.
    pub(crate) fn attested<T>(
        &self,
        calls: &Calls<'_>,
        deed: &ReceiptKind,
        answers: Answers<T>,
        receipt: impl Fn(&T) -> &NodeReceipt,
    ) -> Answers<T> {
        let check = |(node, answer): (ParticipantIndex, Result<T, NodeError>)| {
            let answer = answer.and_then(|answer| {
                self.check_receipt(calls, deed, node, receipt(&answer))?;
                Ok(answer)
            });
            (node, answer)
        };
        answers.into_iter().map(check).collect()
    }

    /// The node that is pinned for this participant signed exactly what it was to do.
    ///
    /// # Errors
    /// [`Code::ReceiptRefused`], with the node as the culprit.
    pub(crate) fn check_receipt(
        &self,
        calls: &Calls<'_>,
        deed: &ReceiptKind,
        node: ParticipantIndex,
        receipt: &NodeReceipt,
    ) -> Result<(), NodeError> {
        let pinned = self.pinned(node).ok_or(NOT_PINNED)?;
        let statement = calls.chain(node).statement(deed)?;
        let Err(error) = receipt.verify(&statement, &pinned.signing_key()) else { return Ok(()) };
        tracing::warn!(
            participant = %node,
            error = &error as &dyn std::error::Error,
            "a node's receipt is not its word for the step"
        );
        self.suspects.add([node]);
        Err(Rejection { code: Code::ReceiptRefused, detail: error.to_string(), culprits: vec![node] }.into())
    }
}

/// Every node is pinned when it is opened.
const NOT_PINNED: NodeError =
    NodeError::Unavailable { detail: "no identity is pinned for the participant", source: None };
