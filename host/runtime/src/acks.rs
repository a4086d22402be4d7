//! What nodes' answers mean for the operation.

use crate::calls::unavailable;
use crate::fan_out::Answers;
use gateway_domain::operation::{Failure, Outcome, Plan};
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{Code, NodeError, Rejection};
use std::collections::BTreeSet;

/// The acknowledgements, however few; a rejection when such nodes refuse for good that the step can never be made.
///
/// # Errors
/// When nobody did the step.
pub(crate) fn acked(answers: Answers<NodeReceipt>, plan: &Plan) -> Result<Outcome, Unavailable> {
    if let Some(failure) = hopeless(&answers, |able| plan.is_enough(able)) {
        return Ok(Outcome::Rejected { failure, policy: None });
    }
    acked_forward(answers)
}

/// As [`acked`] past the point of no return, where a refusal leaves the step owed.
///
/// # Errors
/// When nobody did the step.
pub(crate) fn acked_forward(answers: Answers<NodeReceipt>) -> Result<Outcome, Unavailable> {
    let why = silent(&answers);
    let receipts: Vec<_> = answers.into_values().filter_map(Result::ok).collect();
    if receipts.is_empty() { Err(unavailable(&why)) } else { Ok(Outcome::Acked(receipts)) }
}

/// The failure of an operation that these answers end: fewer than `needed` nodes could still do the step.
pub(crate) fn refused_for_good<T>(answers: &Answers<T>, needed: usize) -> Option<Failure> {
    hopeless(answers, |able| able.len() >= needed)
}

/// As [`refused_for_good`], where it matters who could still do the step.
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
    let (participant, first) = refusals.first()?;
    let mut culprits: Vec<_> =
        refusals.iter().flat_map(|(_, rejection)| rejection.culprits.iter().copied()).collect();
    culprits.sort_unstable();
    culprits.dedup();
    // Whoever names a culprit says more than those who only noticed that something is wrong.
    let said = refusals.iter().find(|(_, rejection)| !rejection.culprits.is_empty());
    let (participant, said) =
        said.map_or((*participant, *first), |(participant, said)| (*participant, *said));
    // A wrong receipt is no refusal: it is found here.
    let did = if said.code == Code::ReceiptRefused { "misbehaved" } else { "refuses" };
    Some(Failure {
        code: said.code.as_str().to_owned(),
        detail: format!("participant {participant} {did}: {}", said.detail),
        culprits,
    })
}

fn refusal<T>(answer: &Result<T, NodeError>) -> Option<&Rejection> {
    match answer {
        Err(NodeError::Rejected(rejection)) if !rejection.code.ends_only_the_attempt() => Some(rejection),
        Ok(_) | Err(NodeError::Rejected(_) | NodeError::Lost { .. } | NodeError::Unavailable { .. }) => None,
    }
}

/// Whether a fresh attempt is what this node needs.
pub(crate) fn is_lost<T>(answer: &Result<T, NodeError>) -> bool {
    match answer {
        Err(NodeError::Lost { .. }) => true,
        Err(NodeError::Rejected(rejection)) => rejection.code.ends_only_the_attempt(),
        Ok(_) | Err(NodeError::Unavailable { .. }) => false,
    }
}

/// Who did not do the step and why, for people.
pub(crate) fn silent<T>(answers: &Answers<T>) -> String {
    let why = |(participant, answer): (&ParticipantIndex, &Result<T, NodeError>)| {
        answer.as_ref().err().map(|error| format!("participant {participant}: {error}"))
    };
    answers.iter().filter_map(why).collect::<Vec<_>>().join("; ")
}
