//! Compares the answers of two bundles to the same vectors.

use crate::bundle::Error;
use crate::bundle::trial::Trial;
use gateway_policy::bundle::{Expectation, Vector};
use serde::Serialize;
use std::fmt;

/// The comparison over the vectors of both bundles.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdicts {
    /// The number of vectors that both bundles evaluated.
    #[serde(rename = "n_asked")]
    pub(crate) n_vectors: usize,
    /// Vectors with different answers.
    pub(crate) differences: Vec<Differs>,
}

/// A vector with different answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Differs {
    /// The vector's file.
    pub(crate) file: String,
    /// The vector's name.
    pub(crate) name: String,
    /// The answer of the old bundle.
    pub(crate) old: Expectation,
    /// The answer of the new bundle.
    pub(crate) new: Expectation,
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Differs { file, name, old, new } in &self.differences {
            writeln!(f, "! {file}: {name}")?;
            writeln!(f, "    old  {}", crate::bundle::test::describe(old))?;
            writeln!(f, "    new  {}", crate::bundle::test::describe(new))?;
        }
        writeln!(f, "verdicts    {} of {} differ", self.differences.len(), self.n_vectors)
    }
}

/// Evaluates the vectors of both bundles with each bundle. A vector that both have is counted once.
pub(super) fn compare(old: &Trial, new: &Trial) -> Result<Verdicts, Error> {
    let mut vectors: Vec<(String, Vector)> = old.bundle.vectors()?;
    for (file, vector) in new.bundle.vectors()? {
        let is_same = |(_, it): &(String, Vector)| it.input == vector.input && it.facts == vector.facts;
        if !vectors.iter().any(is_same) {
            vectors.push((file, vector));
        }
    }
    let n_vectors = vectors.len();
    let mut differences = Vec::new();
    for (file, vector) in vectors {
        let (old, new) = (old.evaluator.answer(&file, &vector)?, new.evaluator.answer(&file, &vector)?);
        if old != new {
            differences.push(Differs { file, name: vector.name, old, new });
        }
    }
    Ok(Verdicts { n_vectors, differences })
}
