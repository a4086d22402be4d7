//! The policy's component at hand, to be run again.

use crate::records::bundle::unsigned;
use crate::records::rerun;
use gateway_domain::operation::Evaluation;
use gateway_evidence::Rerun;
use gateway_policy::{Evaluator, PolicyEngine};
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
        if let Some(why) = rerun::unrepeatable(outcome) {
            return Err(why);
        }
        let told = rerun::differences(&self.0, &evaluation.input, outcome).into_iter();
        Ok(told
            .map(|one| format!("{}: recorded `{}`, now `{}`", one.field, one.recorded, one.again))
            .collect())
    }
}
