//! What two bundles answer to the same questions.

use crate::Error;
use crate::trial::Trial;
use gateway_policy::bundle::{Expectation, Vector};
use serde::Serialize;
use std::fmt;

/// Over the vectors of both bundles.
#[derive(Clone, Debug, Serialize)]
pub struct Verdicts {
    /// Questions that were put to both.
    pub n_asked: usize,
    /// Those answered differently.
    pub differences: Vec<Differs>,
}

/// One question, two answers.
#[derive(Clone, Debug, Serialize)]
pub struct Differs {
    /// Where the vector is.
    pub file: String,
    /// Its name.
    pub name: String,
    /// What the old bundle says.
    pub old: Expectation,
    /// What the new one says.
    pub new: Expectation,
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Differs { file, name, old, new } in &self.differences {
            writeln!(f, "! {file}: {name}")?;
            writeln!(f, "    old  {}", crate::test::shown(old))?;
            writeln!(f, "    new  {}", crate::test::shown(new))?;
        }
        writeln!(f, "verdicts    {} of {} differ", self.differences.len(), self.n_asked)
    }
}

/// Puts every vector of either bundle to both; a question that both have is put once.
pub(super) fn compare(old: &Trial, new: &Trial) -> Result<Verdicts, Error> {
    let mut questions: Vec<(String, Vector)> = old.bundle.vectors()?;
    for (file, vector) in new.bundle.vectors()? {
        let asked = |(_, it): &(String, Vector)| it.input == vector.input && it.facts == vector.facts;
        if !questions.iter().any(asked) {
            questions.push((file, vector));
        }
    }
    let n_asked = questions.len();
    let mut differences = Vec::new();
    for (file, vector) in questions {
        let (old, new) = (old.evaluator.answer(&file, &vector)?, new.evaluator.answer(&file, &vector)?);
        if old != new {
            differences.push(Differs { file, name: vector.name, old, new });
        }
    }
    Ok(Verdicts { n_asked, differences })
}
