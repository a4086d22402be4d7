//! Compares the verdicts of two bundles on the same test vectors.

use crate::bundle::Error;
use crate::bundle::trial::Trial;
use gateway_policy::bundle::{Expectation, Vector};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;

/// The result of evaluating the vectors of both bundles with each bundle.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdicts {
    /// The number of vectors that both bundles ran.
    #[serde(rename = "n_asked")]
    pub(crate) n_vectors: usize,
    pub(crate) differences: Vec<Difference>,
    /// Vectors that only the old bundle ran.
    pub(crate) only_old: Vec<OneSided>,
    /// Vectors that only the new bundle ran.
    pub(crate) only_new: Vec<OneSided>,
}

/// A vector of one bundle that sets a fact which the other bundle does not declare, so that only one of them can run it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OneSided {
    pub(crate) file: String,
    pub(crate) name: String,
    /// The first fact that the other bundle does not declare.
    pub(crate) undeclared_fact: String,
    /// The verdict of the bundle that ran it.
    pub(crate) answer: Expectation,
}

/// A vector on which the bundles' verdicts differ.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Difference {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) old: Expectation,
    pub(crate) new: Expectation,
}

impl ToLines for Verdicts {
    fn add_to(&self, lines: &mut Lines) {
        let not_run = |fact: &str| format!("not run: this bundle does not declare the fact `{fact}`");
        for Difference { file, name, old, new } in &self.differences {
            add_vector(lines, '!', (file, name), &old.to_string(), &new.to_string());
        }
        for OneSided { file, name, undeclared_fact, answer } in &self.only_old {
            add_vector(lines, '-', (file, name), &answer.to_string(), &not_run(undeclared_fact));
        }
        for OneSided { file, name, undeclared_fact, answer } in &self.only_new {
            add_vector(lines, '+', (file, name), &not_run(undeclared_fact), &answer.to_string());
        }
        let (new, old) = (self.only_new.len(), self.only_old.len());
        let one_sided = match (new, old) {
            (0, 0) => String::new(),
            _ => format!("; {new} run by the new bundle only, {old} by the old bundle only"),
        };
        let n_different = self.differences.len();
        lines.add(format_args!("verdicts    {n_different} of {} differ{one_sided}", self.n_vectors));
    }
}

fn add_vector(lines: &mut Lines, mark: char, (file, name): (&str, &str), old: &str, new: &str) {
    lines.add(format_args!("{mark} {file}: {name}"));
    lines.add(format_args!("    old  {old}"));
    lines.add(format_args!("    new  {new}"));
}

/// Evaluates the vectors of both bundles with each bundle. Vectors with the same input and facts count as one; what they expect
/// is ignored. A vector that sets a fact which the other bundle does not declare is evaluated with its own bundle only.
pub(super) fn compare(old: &Trial, new: &Trial) -> Result<Verdicts, Error> {
    let mut verdicts = Verdicts {
        n_vectors: 0,
        differences: Vec::new(),
        only_old: one_sided(old, new)?,
        only_new: one_sided(new, old)?,
    };
    for (file, vector) in shared(old, new)? {
        verdicts.n_vectors = verdicts.n_vectors.saturating_add(1);
        let (old, new) = (old.evaluator.answer(&file, &vector)?, new.evaluator.answer(&file, &vector)?);
        if old != new {
            verdicts.differences.push(Difference { file, name: vector.name, old, new });
        }
    }
    Ok(verdicts)
}

/// The vectors of both bundles that both can run, each once.
fn shared(old: &Trial, new: &Trial) -> Result<Vec<(String, Vector)>, Error> {
    let mut vectors = old.bundle.vectors()?;
    vectors.retain(|(_, vector)| new.evaluator.undeclared_fact(vector).is_none());
    for (file, vector) in new.bundle.vectors()? {
        let is_same =
            |(_, known): &(String, Vector)| known.input == vector.input && known.facts == vector.facts;
        if old.evaluator.undeclared_fact(&vector).is_none() && !vectors.iter().any(is_same) {
            vectors.push((file, vector));
        }
    }
    Ok(vectors)
}

/// The vectors of `of` that `other` cannot run.
fn one_sided(of: &Trial, other: &Trial) -> Result<Vec<OneSided>, Error> {
    let mut found = Vec::new();
    for (file, vector) in of.bundle.vectors()? {
        if let Some(fact) = other.evaluator.undeclared_fact(&vector) {
            let (undeclared_fact, answer) = (fact.to_owned(), of.evaluator.answer(&file, &vector)?);
            found.push(OneSided { file, name: vector.name, undeclared_fact, answer });
        }
    }
    Ok(found)
}
