//! The policy's component at hand, to be run again.

use crate::records::bundle::unsigned;
use gateway_domain::operation::Evaluation;
use gateway_domain::policy::Facts;
use gateway_domain::policy::compare::differences;
use gateway_evidence::Rerun;
use gateway_policy::{EvaluationFault, Evaluator, PolicyEngine};
use std::error::Error;
use std::path::Path;

/// A bundle, whoever signed it: its hash pins every byte of it, and the evidence names the hash.
pub(super) struct Bundle(Evaluator);

impl Bundle {
    pub(super) fn load(folder: &Path) -> Result<Self, Box<dyn Error>> {
        Ok(Self(unsigned(&PolicyEngine::new()?, folder)?))
    }
}

impl Rerun for Bundle {
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String> {
        let outcome = &evaluation.outcome;
        if outcome.bundle_hash != self.0.bundle_hash() {
            return Err(format!("bundle {} decided, which was not given", outcome.bundle_hash));
        }
        let fault = outcome.fault.as_deref().and_then(EvaluationFault::from_kind);
        if let Some(fault) = fault.filter(|fault| !fault.is_repeatable()) {
            return Err(format!("`{}` was the host's doing, not the bundle's", fault.kind()));
        }
        let facts = Facts::recorded(&outcome.facts);
        let again = self.0.evaluate(&evaluation.input.request(), &facts, self.0.fuel_max());
        let told = differences(outcome, &again.outcome).into_iter();
        Ok(told
            .map(|one| format!("{}: recorded `{}`, now `{}`", one.field, one.recorded, one.again))
            .collect())
    }
}
