//! `bundle test`: evaluates every vector with the limits of production, and finds declared codes that no vector covers.

use crate::bundle::{Error, build, cargo, source, trial};
use gateway_domain::ids::Hex32;
use gateway_policy::bundle::{Declaration, Expectation};
use gateway_policy::{BundleFiles, PolicyEngine};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The report of `bundle test`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tested {
    pub(crate) bundle_id: String,
    /// The bundle's hash; of a draft, the hash that it would have if it were built now.
    pub(crate) bundle_hash: Hex32,
    pub(crate) vectors: Vec<Answered>,
    pub(crate) n_codes: usize,
    /// Declared codes that no vector's answer has.
    pub(crate) uncovered: Vec<String>,
}

/// A vector, and what the policy answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answered {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) passes: bool,
    pub(crate) expected: Expectation,
    pub(crate) actual: Expectation,
    /// The reasons and obligations of the answer that have operands, as `code: operands`.
    pub(crate) statements: Vec<String>,
    /// Why the policy gave no verdict; absent if it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

impl Tested {
    /// Whether every vector passes and, if `strict`, every declared code is covered by a vector.
    #[must_use]
    pub(crate) fn passed(&self, strict: bool) -> bool {
        self.n_passed() == self.vectors.len() && (!strict || self.uncovered.is_empty())
    }

    /// The answers to vectors that pass, for people.
    pub(crate) fn add_passing_to(&self, lines: &mut Lines) {
        for passing in self.vectors.iter().filter(|vector| vector.passes) {
            let Answered { file, name, actual, .. } = passing;
            lines.add(format_args!("passed  {file}: {name}"));
            lines.add(format_args!("  answer    {actual}"));
            passing.add_details(lines);
        }
    }

    fn n_passed(&self) -> usize {
        self.vectors.iter().filter(|vector| vector.passes).count()
    }
}

impl Answered {
    /// What the answer says besides what a vector expects.
    fn add_details(&self, lines: &mut Lines) {
        for statement in &self.statements {
            lines.add(format_args!("  says      {statement}"));
        }
        if let Some(fault) = &self.fault {
            lines.add(format_args!("  fault     {fault}"));
        }
    }
}

impl ToLines for Tested {
    fn add_to(&self, lines: &mut Lines) {
        for failing in self.vectors.iter().filter(|vector| !vector.passes) {
            let Answered { file, name, expected, actual, .. } = failing;
            lines.add(format_args!("FAILED  {file}: {name}"));
            lines.add(format_args!("  expected  {expected}"));
            lines.add(format_args!("  actual    {actual}"));
            failing.add_details(lines);
        }
        let (passed, covered) = (self.n_passed(), self.n_codes.saturating_sub(self.uncovered.len()));
        lines.add(format_args!("vectors     {passed} of {} pass", self.vectors.len()));
        let uncovered = match self.uncovered.is_empty() {
            true => String::new(),
            false => format!("; not covered: `{}`", self.uncovered.join("`, `")),
        };
        lines.add(format_args!("codes       {covered} of {} covered by a vector{uncovered}", self.n_codes));
    }
}

/// Tests the bundle at `path`. For a source folder, first runs its own tests, and then tests the component built from the
/// sources, in memory.
///
/// # Errors
/// [`Error::Bundle`] for a bundle that cannot be loaded, [`Error::ToolFailed`] if a test of the sources fails. A failing
/// vector is not an error.
pub(crate) fn test(path: &Path) -> Result<Tested, Error> {
    if !source::is_source(path) {
        return test_files(&source::read(path)?);
    }
    cargo::test(path)?;
    let files = build::build_in_memory(path)?;
    cargo::show_progress("running the vectors");
    test_files(&files)
}

fn test_files(files: &BundleFiles) -> Result<Tested, Error> {
    let trial = trial::load(&PolicyEngine::new()?, files)?;
    let (mut vectors, mut shown) = (Vec::new(), BTreeSet::new());
    for (file, vector) in trial.bundle.vectors()? {
        let outcome = trial.evaluator.outcome(&file, &vector)?;
        let fault = outcome.fault.as_ref().map(ToString::to_string);
        let with_operands =
            outcome.reasons.iter().chain(&outcome.obligations).filter(|it| !it.operands.is_empty());
        let statements = with_operands.map(ToString::to_string).collect();
        let actual = Expectation::from(outcome);
        shown.extend(actual.reasons.iter().chain(&actual.obligations).cloned());
        let passes = actual == vector.expect;
        let (name, expected) = (vector.name, vector.expect);
        vectors.push(Answered { file, name, passes, expected, actual, statements, fault });
    }
    let manifest = trial.bundle.manifest();
    let declared = || codes(&manifest.reasons).chain(codes(&manifest.obligations));
    Ok(Tested {
        bundle_id: manifest.bundle_id.clone(),
        bundle_hash: trial.bundle.hash(),
        vectors,
        n_codes: declared().count(),
        uncovered: declared().filter(|code| !shown.contains(*code)).map(str::to_owned).collect(),
    })
}

fn codes(declared: &[Declaration]) -> impl Iterator<Item = &str> {
    declared.iter().map(|declaration| declaration.code.as_str())
}
