//! Verifies the receipts in the nodes' answers, and turns the answers into the operation's outcome.

use crate::calls::{Calls, unavailable};
use crate::fan_out::Answers;
use crate::fleet::Fleet;
use crate::node::Nodes;
use gateway_domain::operation::{Failure, Outcome, Plan};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{Code, NodeError, NodeRejection};
use std::borrow::Cow;
use std::collections::BTreeSet;

impl<N: Nodes> Fleet<N> {
    /// Verifies the receipt in each answer: it must be signed by the participant's pinned node, over exactly this step. An
    /// answer with an invalid receipt becomes a rejection that names the node as the culprit; the other answers stay.
    pub(crate) fn verify_receipts<T>(
        &self,
        calls: &Calls<'_>,
        kind: &ReceiptKind,
        answers: Answers<T>,
        receipt: impl Fn(&T) -> &NodeReceipt,
    ) -> Answers<T> {
        let check = |(node, answer): (ParticipantIndex, Result<T, NodeError>)| {
            let answer = answer.and_then(|answer| {
                self.verify_receipt(calls, kind, node, receipt(&answer))?;
                Ok(answer)
            });
            (node, answer)
        };
        answers.into_iter().map(check).collect()
    }

    pub(crate) fn verify_receipt(
        &self,
        calls: &Calls<'_>,
        kind: &ReceiptKind,
        node: ParticipantIndex,
        receipt: &NodeReceipt,
    ) -> Result<(), NodeError> {
        let pinned = self.pinned(node).ok_or(NOT_PINNED)?;
        let statement = calls.chain(node).statement(kind)?;
        let Err(error) = receipt.verify(&statement, &pinned.signing_key()) else {
            self.newest.note(statement, receipt);
            return Ok(());
        };
        tracing::warn!(
            participant = %node,
            error = &error as &dyn std::error::Error,
            "a node's receipt is not valid for the step"
        );
        self.suspects.add([node]);
        Err(NodeRejection {
            code: Code::ReceiptRefused,
            detail: error.to_string(),
            culprits: vec![node],
            complaint: None,
        }
        .into())
    }
}

/// Does not occur: a node is pinned when it is opened, before it is called.
const NOT_PINNED: NodeError = NodeError::Unavailable {
    detail: Cow::Borrowed("no identity is pinned for the participant"),
    source: None,
};

/// The outcome of a step that nodes may refuse: rejected if so many nodes refuse permanently that the others are not enough for
/// the plan, otherwise the receipts.
///
/// # Errors
/// [`Unavailable`] when no node made the step.
pub(crate) fn outcome(answers: Answers<NodeReceipt>, plan: &Plan) -> Result<Outcome, Unavailable> {
    if let Some(failure) = failure_unless(&answers, |able| plan.is_enough(able)) {
        return Ok(Outcome::Rejected { failure, policy: None });
    }
    forward_outcome(answers)
}

/// The outcome of a step after which the operation can only go forward: the receipts. Refusals leave the step pending.
///
/// # Errors
/// [`Unavailable`] when no node made the step.
pub(crate) fn forward_outcome(answers: Answers<NodeReceipt>) -> Result<Outcome, Unavailable> {
    let why = failures(&answers);
    let receipts: Vec<_> = answers.into_values().filter_map(Result::ok).collect();
    if receipts.is_empty() { Err(unavailable(&why)) } else { Ok(Outcome::Acked(receipts)) }
}

/// The failure that ends the operation, if fewer than `n_needed` nodes did not refuse permanently.
pub(crate) fn permanent_failure<T>(answers: &Answers<T>, n_needed: usize) -> Option<Failure> {
    failure_unless(answers, |able| able.len() >= n_needed)
}

/// The failure that ends the operation, unless the nodes that did not refuse permanently are enough.
pub(crate) fn failure_unless<T>(
    answers: &Answers<T>,
    is_enough: impl Fn(&BTreeSet<ParticipantIndex>) -> bool,
) -> Option<Failure> {
    let refusals = answers.iter().filter_map(|(participant, answer)| Some((participant, refusal(answer)?)));
    let refusals: Vec<(&ParticipantIndex, &NodeRejection)> = refusals.collect();
    let able = answers.iter().filter(|(_, answer)| refusal(answer).is_none());
    if is_enough(&able.map(|(participant, _)| *participant).collect()) {
        return None;
    }
    // Reports a refusal that names a culprit, if there is one.
    let names_culprit = refusals.iter().find(|(_, rejection)| !rejection.culprits.is_empty());
    let (participant, rejection) = names_culprit.or_else(|| refusals.first())?;
    let mut culprits: Vec<_> =
        refusals.iter().flat_map(|(_, rejection)| rejection.culprits.iter().copied()).collect();
    culprits.sort_unstable();
    culprits.dedup();
    // These are the fleet's own words about the node, which did not refuse.
    let is_culprit = rejection.culprits == [**participant];
    let verb = if rejection.code == Code::ReceiptRefused || is_culprit { "misbehaved" } else { "refuses" };
    Some(Failure {
        code: rejection.code.as_str().to_owned(),
        detail: format!("participant {participant} {verb}: {}", rejection.detail),
        culprits,
    })
}

/// The node's refusal, if a fresh attempt cannot succeed either.
pub(crate) fn refusal<T>(answer: &Result<T, NodeError>) -> Option<&NodeRejection> {
    match answer {
        Err(NodeError::Rejected(rejection)) if !rejection.code.ends_only_the_attempt() => Some(rejection),
        Ok(_)
        | Err(
            NodeError::Rejected(_)
            | NodeError::Lost { .. }
            | NodeError::BundleUnknown { .. }
            | NodeError::Unavailable { .. },
        ) => None,
    }
}

/// Whether this attempt is lost on the node, so that it needs a fresh one.
pub(crate) fn is_lost<T>(answer: &Result<T, NodeError>) -> bool {
    match answer {
        Err(NodeError::Lost { .. }) => true,
        Err(NodeError::Rejected(rejection)) => rejection.code.ends_only_the_attempt(),
        Ok(_) | Err(NodeError::BundleUnknown { .. } | NodeError::Unavailable { .. }) => false,
    }
}

/// The errors of the participants that did not make the step, for people.
pub(crate) fn failures<T>(answers: &Answers<T>) -> String {
    let why = |(participant, answer): (&ParticipantIndex, &Result<T, NodeError>)| {
        answer.as_ref().err().map(|error| format!("participant {participant}: {error}"))
    };
    answers.iter().filter_map(why).collect::<Vec<_>>().join("; ")
}

/// The outcome of an operation that the fleet itself rejects.
pub(crate) fn rejected(code: &str, detail: String) -> Outcome {
    Outcome::Rejected {
        failure: Failure { code: code.to_owned(), detail, culprits: Vec::new() },
        policy: None,
    }
}
