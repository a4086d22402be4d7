//! `bundle lint`: what a reviewer would ask about a bundle that loads.

mod measure;
mod rules;

use crate::trial::{self, Trial};
use crate::{Error, source};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::PolicyEngine;
use gateway_policy::bundle::Limits;
use measure::Usage;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// The report. It has no time and no machine in it: the same bundle gives the same bytes on every machine, so that a
/// reviewer can sign it and the next one can repeat it. Only `expired` and `expires_soon` follow the clock.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The bundle's name.
    pub bundle_id: String,
    /// Its version.
    pub version: String,
    /// Its place among its versions.
    pub sequence: u64,
    /// What was looked at.
    pub bundle_hash: Hex32,
    /// The component's size.
    pub component_bytes: usize,
    /// Vectors that were run.
    pub n_vectors: usize,
    /// What the manifest asks for.
    pub limits: Limits,
    /// The most that a vector used.
    pub used: Used,
    /// Gravest first.
    pub findings: Vec<Finding>,
}

/// The most that any vector used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Used {
    /// Wasm fuel.
    pub fuel: u64,
    /// Linear memory, bytes.
    pub memory_bytes: u64,
}

/// One thing to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How grave it is.
    pub level: Level,
    /// Which rule found it.
    pub rule: &'static str,
    /// What it is about.
    pub text: String,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The bundle should not be signed.
    Error,
    /// Somebody should say why it is so.
    Warning,
    /// Good to know.
    Note,
}

impl Report {
    /// Whether there is no error, and when `strict`, no warning.
    #[must_use]
    pub fn passed(&self, strict: bool) -> bool {
        let gravest = if strict { Level::Warning } else { Level::Error };
        self.findings.iter().all(|finding| finding.level > gravest)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bundle_id, version, sequence, limits, used, .. } = self;
        writeln!(f, "bundle      {bundle_id} {version}, sequence {sequence}")?;
        writeln!(f, "bundle hash {}", self.bundle_hash)?;
        writeln!(f, "component   {} bytes", self.component_bytes)?;
        writeln!(f, "fuel        {} used of {}", used.fuel, limits.fuel)?;
        writeln!(f, "memory      {} bytes used of {}", used.memory_bytes, limits.memory_bytes)?;
        for Finding { level, rule, text } in &self.findings {
            writeln!(f, "{:<11} {rule}: {text}", format!("{level:?}").to_lowercase())?;
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        writeln!(f, "found       {errors} errors, {warnings} warnings, {} notes", count(Level::Note))
    }
}

/// Loads the bundle at `path`, runs its vectors, and reports what a reviewer would ask about.
///
/// # Errors
/// [`Error::Bundle`] for a bundle that cannot be loaded at all.
pub fn lint(path: &Path, now: EpochMs) -> Result<Report, Error> {
    let files = source::read(path)?;
    let Trial { bundle, evaluator } = trial::load(&PolicyEngine::new()?, &files)?;
    let usage = Usage::of(&bundle, &evaluator)?;
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
