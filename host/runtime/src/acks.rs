//! What the answers of nodes mean for the operation, and whether a receipt counts.

use crate::calls::{Calls, unavailable};
use crate::fan_out::Answers;
use crate::fleet::EmbeddedFleet;
use gateway_domain::operation::{Failure, Outcome, Plan};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{Code, NodeError, Rejection};
use std::collections::BTreeSet;

impl EmbeddedFleet {
    /// Checks the receipt in each answer: the participant's pinned node must have signed exactly this step. An answer with
    /// another receipt becomes a refusal that names the node; it acknowledges nothing, and the other answers count as
    /// before.
    pub(crate) fn with_receipts<T>(
        &self,
        calls: &Calls<'_>,
        kind: &ReceiptKind,
        answers: Answers<T>,
        receipt: impl Fn(&T) -> &NodeReceipt,
    ) -> Answers<T> {
        let check = |(node, answer): (ParticipantIndex, Result<T, NodeError>)| {
            let answer = answer.and_then(|answer| {
                self.check_receipt(calls, kind, node, receipt(&answer))?;
                Ok(answer)
            });
            (node, answer)
        };
        answers.into_iter().map(check).collect()
    }

    fn check_receipt(
        &self,
        calls: &Calls<'_>,
        kind: &ReceiptKind,
        node: ParticipantIndex,
        receipt: &NodeReceipt,
    ) -> Result<(), NodeError> {
        let pinned = self.pinned(node).ok_or(NOT_PINNED)?;
        let statement = calls.chain(node).statement(kind)?;
        let Err(error) = receipt.verify(&statement, &pinned.signing_key()) else { return Ok(()) };
        tracing::warn!(
            participant = %node,
            error = &error as &dyn std::error::Error,
            "a node's receipt is not valid for the step"
        );
        self.suspects.add([node]);
        Err(Rejection { code: Code::ReceiptRefused, detail: error.to_string(), culprits: vec![node] }.into())
    }
}

/// Every node is pinned when it is opened.
const NOT_PINNED: NodeError =
    NodeError::Unavailable { detail: "no identity is pinned for the participant", source: None };

/// The acknowledgements, however few, or a rejection when so many nodes refuse for good that the step can never be made.
///
/// # Errors
/// [`Unavailable`] when no node made the step.
pub(crate) fn acked(answers: Answers<NodeReceipt>, plan: &Plan) -> Result<Outcome, Unavailable> {
    if let Some(failure) = hopeless(&answers, |able| plan.is_enough(able)) {
        return Ok(Outcome::Rejected { failure, policy: None });
    }
    acked_forward(answers)
}

/// [`acked`] past the point of no return, where a refusal leaves the step owed.
///
/// # Errors
/// [`Unavailable`] when no node made the step.
pub(crate) fn acked_forward(answers: Answers<NodeReceipt>) -> Result<Outcome, Unavailable> {
    let why = failures(&answers);
    let receipts: Vec<_> = answers.into_values().filter_map(Result::ok).collect();
    if receipts.is_empty() { Err(unavailable(&why)) } else { Ok(Outcome::Acked(receipts)) }
}

/// The failure of an operation that these answers end: fewer than `needed` nodes could still make the step.
pub(crate) fn refused_for_good<T>(answers: &Answers<T>, needed: usize) -> Option<Failure> {
    hopeless(answers, |able| able.len() >= needed)
}

/// [`refused_for_good`] where it matters which nodes could still make the step.
fn hopeless<T>(
    answers: &Answers<T>,
    is_enough: impl Fn(&BTreeSet<ParticipantIndex>) -> bool,
) -> Option<Failure> {
    let refusals = answers.iter().filter_map(|(participant, answer)| Some((participant, refusal(answer)?)));
    let refusals: Vec<(&ParticipantIndex, &Rejection)> = refusals.collect();
    let able = answers.iter().filter(|(_, answer)| refusal(answer).is_none());
    if is_enough(&able.map(|(participant, _)| *participant).collect()) {
        return None;
    }
    // A refusal that names a culprit says more than one that only noticed a fault.
    let names_culprit = refusals.iter().find(|(_, rejection)| !rejection.culprits.is_empty());
    let (participant, rejection) = names_culprit.or_else(|| refusals.first())?;
    let mut culprits: Vec<_> =
        refusals.iter().flat_map(|(_, rejection)| rejection.culprits.iter().copied()).collect();
    culprits.sort_unstable();
    culprits.dedup();
    // The fleet finds a wrong receipt; the node did not refuse.
    let verb = if rejection.code == Code::ReceiptRefused { "misbehaved" } else { "refuses" };
    Some(Failure {
        code: rejection.code.as_str().to_owned(),
        detail: format!("participant {participant} {verb}: {}", rejection.detail),
        culprits,
    })
}

/// The node's refusal, if no later attempt can succeed either.
pub(crate) fn refusal<T>(answer: &Result<T, NodeError>) -> Option<&Rejection> {
    match answer {
        Err(NodeError::Rejected(rejection)) if !rejection.code.ends_only_the_attempt() => Some(rejection),
        Ok(_) | Err(NodeError::Rejected(_) | NodeError::Lost { .. } | NodeError::Unavailable { .. }) => None,
    }
}

/// Whether this node needs a fresh attempt.
pub(crate) fn is_lost<T>(answer: &Result<T, NodeError>) -> bool {
    match answer {
        Err(NodeError::Lost { .. }) => true,
        Err(NodeError::Rejected(rejection)) => rejection.code.ends_only_the_attempt(),
        Ok(_) | Err(NodeError::Unavailable { .. }) => false,
    }
}

/// The participants that did not make the step, each with its error, for people.
pub(crate) fn failures<T>(answers: &Answers<T>) -> String {
    let why = |(participant, answer): (&ParticipantIndex, &Result<T, NodeError>)| {
        answer.as_ref().err().map(|error| format!("participant {participant}: {error}"))
    };
    answers.iter().filter_map(why).collect::<Vec<_>>().join("; ")
}
