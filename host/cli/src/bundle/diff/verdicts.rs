//! Compares the verdicts of two bundles on the same test vectors.

use crate::bundle::Error;
use crate::bundle::trial::Trial;
use gateway_policy::bundle::{Expectation, Vector};
use serde::Serialize;
use std::fmt;

/// The result of evaluating the vectors of both bundles with each bundle.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdicts {
    /// The number of vectors.
    #[serde(rename = "n_asked")]
    pub(crate) n_vectors: usize,
    /// The vectors with different verdicts.
    pub(crate) differences: Vec<Difference>,
}

/// A vector on which the bundles' verdicts differ.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Difference {
    /// The vector's file.
    pub(crate) file: String,
    /// The vector's name.
    pub(crate) name: String,
    /// The old bundle's verdict.
    pub(crate) old: Expectation,
    /// The new bundle's verdict.
    pub(crate) new: Expectation,
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Difference { file, name, old, new } in &self.differences {
            writeln!(f, "! {file}: {name}")?;
            writeln!(f, "    old  {}", crate::bundle::test::describe(old))?;
            writeln!(f, "    new  {}", crate::bundle::test::describe(new))?;
        }
        writeln!(f, "verdicts    {} of {} differ", self.differences.len(), self.n_vectors)
    }
}

/// Evaluates the vectors of both bundles with each bundle. Vectors with the same input and facts count as one; what they expect
/// is ignored.
pub(super) fn compare(old: &Trial, new: &Trial) -> Result<Verdicts, Error> {
    let mut vectors: Vec<(String, Vector)> = old.bundle.vectors()?;
    for (file, vector) in new.bundle.vectors()? {
        let is_same =
            |(_, known): &(String, Vector)| known.input == vector.input && known.facts == vector.facts;
        if !vectors.iter().any(is_same) {
            vectors.push((file, vector));
        }
    }
    let n_vectors = vectors.len();
    let mut differences = Vec::new();
    for (file, vector) in vectors {
        let (old, new) = (old.evaluator.answer(&file, &vector)?, new.evaluator.answer(&file, &vector)?);
        if old != new {
            differences.push(Difference { file, name: vector.name, old, new });
        }
    }
    Ok(Verdicts { n_vectors, differences })
}
