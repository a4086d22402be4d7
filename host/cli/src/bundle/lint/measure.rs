//! Evaluates the vectors of a bundle, for the rules.

use crate::bundle::Error;
use gateway_domain::policy::Decision;
use gateway_policy::bundle::Expectation;
use gateway_policy::{Bundle, Evaluator};
use std::collections::BTreeSet;

/// What the policy used and answered over all vectors.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) n_vectors: usize,
    /// The most fuel that a vector used.
    pub(super) fuel: u64,
    /// The most memory that a vector used, in bytes.
    pub(super) memory_bytes: u64,
    /// The codes of reasons and obligations in the answers.
    pub(super) codes: BTreeSet<String>,
    pub(super) facts: BTreeSet<String>,
    pub(super) allows: bool,
    pub(super) denies: bool,
    /// `file: name` of vectors that fail.
    pub(super) failures: Vec<String>,
    /// The faults that vectors caused: the kind, and for an undeclared fact its name.
    pub(super) faults: BTreeSet<String>,
}

impl Usage {
    pub(super) fn measure(bundle: &Bundle, evaluator: &Evaluator) -> Result<Self, Error> {
        let mut usage = Self::default();
        for (file, vector) in bundle.vectors()? {
            let (request, facts) = (vector.request(&file)?, evaluator.facts_of(&file, &vector)?);
            let evaluated = evaluator.evaluate_raw(&request, &facts, evaluator.fuel_max());
            usage.fuel = usage.fuel.max(evaluated.fuel_used());
            let memory_bytes = u64::try_from(evaluated.memory_bytes()).unwrap_or(u64::MAX);
            usage.memory_bytes = usage.memory_bytes.max(memory_bytes);
            let outcome = evaluator.complete(&request, evaluated);
            usage.facts.extend(outcome.facts.iter().map(|read| read.name.clone()));
            usage.faults.extend(outcome.fault.as_ref().map(ToString::to_string));
            let actual = Expectation::from(outcome);
            usage.codes.extend(actual.reasons.iter().chain(&actual.obligations).cloned());
            match actual.decision {
                Decision::Allow => usage.allows = true,
                Decision::Deny => usage.denies = true,
            }
            if actual != vector.expect {
                usage.failures.push(format!("{file}: {}", vector.name));
            }
            usage.n_vectors = usage.n_vectors.saturating_add(1);
        }
        Ok(usage)
    }
}
