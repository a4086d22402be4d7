//! `bundle lint`: findings about a valid bundle, for its reviewer.

mod measure;
mod rules;

use crate::bundle::trial::{self, Trial};
use crate::bundle::{Error, source};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::PolicyEngine;
use gateway_policy::bundle::Limits;
use gateway_service::output::{Lines, ToLines};
use measure::Usage;
pub(crate) use rules::{Finding, Level};
use serde::Serialize;
use std::path::Path;

/// The report. The same bundle gives the same bytes on every machine, so that a reviewer can sign it and another can
/// reproduce it. Only `expired` and `expires_soon` depend on the time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) bundle_id: String,
    pub(crate) version: String,
    /// The sequence number: a newer version has a higher one.
    pub(crate) sequence: u64,
    pub(crate) bundle_hash: Hex32,
    pub(crate) component_bytes: usize,
    /// The number of vectors. All were evaluated.
    pub(crate) n_vectors: usize,
    pub(crate) limits: Limits,
    pub(crate) used: Used,
    /// The findings, most severe first.
    pub(crate) findings: Vec<Finding>,
}

/// The most that any vector used.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Used {
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: u64,
}

impl Report {
    /// Whether there is no error, and if `strict`, no warning.
    #[must_use]
    pub(crate) fn passed(&self, strict: bool) -> bool {
        let threshold = if strict { Level::Warning } else { Level::Error };
        self.findings.iter().all(|finding| finding.level > threshold)
    }
}

impl ToLines for Report {
    fn add_to(&self, lines: &mut Lines) {
        let Self { bundle_id, version, sequence, limits, used, .. } = self;
        lines.add(format_args!("bundle      {bundle_id} {version}, sequence {sequence}"));
        lines.add(format_args!("bundle hash {}", self.bundle_hash));
        lines.add(format_args!("component   {} bytes", self.component_bytes));
        lines.add(format_args!("fuel        {} used of {}", used.fuel, limits.fuel));
        lines.add(format_args!("memory      {} bytes used of {}", used.memory_bytes, limits.memory_bytes));
        for Finding { level, rule, text } in &self.findings {
            lines.add(format_args!("{:<11} {rule}: {text}", format!("{level:?}").to_lowercase()));
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        lines.add(format_args!(
            "found       {errors} errors, {warnings} warnings, {} notes",
            count(Level::Note)
        ));
    }
}

/// Loads the bundle at `path`, evaluates its vectors, and applies every rule.
pub(crate) fn lint(path: &Path, now: EpochMs) -> Result<Report, Error> {
    let files = source::read(path)?;
    let Trial { bundle, evaluator } = trial::load(&PolicyEngine::new()?, &files)?;
    let usage = Usage::measure(&bundle, &evaluator)?;
    let manifest = bundle.manifest();
    let mut findings = rules::all(&bundle, &usage, now)?;
    findings.sort();
    Ok(Report {
        bundle_id: manifest.bundle_id.clone(),
        version: manifest.version.clone(),
        sequence: manifest.sequence,
        bundle_hash: bundle.hash(),
        component_bytes: bundle.component()?.len(),
        n_vectors: usage.n_vectors,
        limits: manifest.limits,
        used: Used { fuel: usage.fuel, memory_bytes: usage.memory_bytes },
        findings,
    })
}
