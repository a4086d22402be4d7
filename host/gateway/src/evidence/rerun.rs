//! The policy's components at hand, to be run again.

use crate::records::bundle::unsigned;
use crate::records::rerun;
use gateway_domain::operation::Evaluation;
use gateway_evidence::Rerun;
use gateway_policy::{Evaluator, PolicyEngine};
use std::error::Error;
use std::path::PathBuf;

/// Bundles, without a check of their signatures: the evidence names the hash, which pins every byte.
pub(super) struct Bundles(Vec<Evaluator>);

impl Bundles {
    pub(super) fn load(folders: &[PathBuf]) -> Result<Self, Box<dyn Error>> {
        let engine = PolicyEngine::new()?;
        Ok(Self(folders.iter().map(|folder| unsigned(&engine, folder)).collect::<Result<_, _>>()?))
    }
}

impl Rerun for Bundles {
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String> {
        let outcome = &evaluation.outcome;
        let Some(bundle) = self.0.iter().find(|bundle| outcome.bundle_hash == bundle.bundle_hash()) else {
            return Err(format!("bundle {} decided, which was not given", outcome.bundle_hash));
        };
        if let Some(why) = rerun::unrepeatable(outcome) {
            return Err(why);
        }
        let told = rerun::differences(bundle, &evaluation.input, outcome).into_iter();
        Ok(told
            .map(|one| format!("{}: recorded `{}`, now `{}`", one.field, one.recorded, one.again))
            .collect())
    }
}
