//! A recorded decision, asked again.

use gateway_domain::policy::compare::{self, Difference};
use gateway_domain::policy::{Facts, Input, Outcome};
use gateway_policy::{EvaluationFault, Evaluator};

/// Why asking again could not give the same: the host failed, and not the bundle.
pub(crate) fn unrepeatable(outcome: &Outcome) -> Option<String> {
    let fault = outcome.fault.as_deref().and_then(EvaluationFault::from_kind);
    let fault = fault.filter(|fault| !fault.is_repeatable())?;
    Some(format!("`{}` was the host's doing, not the bundle's", fault.kind()))
}

/// What the bundle says otherwise than was recorded, with the facts that were recorded.
pub(crate) fn differences(evaluator: &Evaluator, input: &Input, recorded: &Outcome) -> Vec<Difference> {
    let facts = Facts::recorded(&recorded.facts);
    let again = evaluator.evaluate(&input.request(), &facts, evaluator.fuel_max());
    compare::differences(recorded, &again.outcome)
}
