//! A bundle's own vectors, run as they would be in production.

use crate::bundle::{Bundle, BundleError, Expectation, Vector};
use crate::evaluator::Evaluator;
use gateway_domain::policy::{Outcome, Request, Statement};

/// # Errors
/// [`BundleError::Vector`]: the first that does not hold, with both answers.
pub(crate) fn run(evaluator: &Evaluator, bundle: &Bundle) -> Result<(), BundleError> {
    for (file, vector) in bundle.vectors()? {
        let actual = answer(evaluator, &file, &vector)?;
        if actual != vector.expect {
            return Err(BundleError::Vector {
                file,
                name: vector.name,
                expected: format!("{:?}", vector.expect),
                actual: format!("{actual:?}"),
            });
        }
    }
    Ok(())
}

fn answer(evaluator: &Evaluator, file: &str, vector: &Vector) -> Result<Expectation, BundleError> {
    let input = &vector.input;
    let hash = |source| BundleError::Canonical { file: file.to_owned(), source };
    let request = Request {
        moment: input.moment,
        intent_hash: input.intent.hash().map_err(hash)?,
        tenant: &input.tenant,
        key_ref: &input.key_ref,
        submitter: &input.submitter,
        intent: &input.intent,
        approvals: &input.approvals,
    };
    let evaluation =
        evaluator.evaluate(&request, &vector.facts(file, evaluator.fact_names())?, evaluator.fuel_max());
    Ok(summary(evaluation.outcome))
}

fn summary(outcome: Outcome) -> Expectation {
    let codes = |statements: Vec<Statement>| statements.into_iter().map(|it| it.code).collect();
    Expectation {
        decision: outcome.decision,
        reasons: codes(outcome.reasons),
        obligations: codes(outcome.obligations),
        subjects: outcome.quorum.subjects,
        required: outcome.quorum.required,
        satisfied: outcome.quorum.satisfied,
    }
}
