//! Runs a bundle's test vectors.

use crate::bundle::{Bundle, BundleError, Expectation, Vector};
use crate::evaluator::Evaluator;
use gateway_domain::policy::{Facts, Outcome};

/// Runs all vectors with the manifest's limits.
///
/// # Errors
/// [`BundleError::NoVectors`] if there are none; [`BundleError::Vector`] for the first vector with another verdict than expected.
pub(crate) fn run(evaluator: &Evaluator, bundle: &Bundle) -> Result<(), BundleError> {
    let vectors = bundle.vectors()?;
    if vectors.is_empty() {
        return Err(BundleError::NoVectors);
    }
    for (file, vector) in vectors {
        let outcome = evaluator.outcome(&file, &vector)?;
        let fault = outcome.fault_text().map(|fault| format!("the fault {fault}"));
        let actual = Expectation::from(outcome);
        if actual != vector.expect {
            return Err(BundleError::Vector {
                file,
                name: vector.name,
                expected: format!("{:?}", vector.expect),
                actual: fault.unwrap_or_else(|| format!("{actual:?}")),
            });
        }
    }
    Ok(())
}

impl Evaluator {
    /// The policy's verdict on a vector, with the manifest's limits. `file` is the vector's file, for errors.
    ///
    /// # Errors
    /// [`BundleError`] for a vector that is not a valid request to this bundle.
    pub fn answer(&self, file: &str, vector: &Vector) -> Result<Expectation, BundleError> {
        self.outcome(file, vector).map(Expectation::from)
    }

    /// As [`Evaluator::answer`], with texts, facts and fault.
    ///
    /// # Errors
    /// As [`Evaluator::answer`].
    pub fn outcome(&self, file: &str, vector: &Vector) -> Result<Outcome, BundleError> {
        let (request, facts) = (vector.request(file)?, self.facts_of(file, vector)?);
        Ok(self.evaluate(&request, &facts, self.fuel_max()).outcome)
    }

    /// The first fact that the vector sets and this policy may not read, so that the policy cannot answer the vector.
    #[must_use]
    pub fn undeclared_fact<'a>(&self, vector: &'a Vector) -> Option<&'a str> {
        vector.undeclared_fact(self.fact_names())
    }

    /// The facts that a vector sets. `file` is the vector's file, for errors.
    ///
    /// # Errors
    /// [`BundleError::Json`] for a fact that this policy may not read.
    pub fn facts_of(&self, file: &str, vector: &Vector) -> Result<Facts, BundleError> {
        vector.facts(file, self.fact_names())
    }
}
