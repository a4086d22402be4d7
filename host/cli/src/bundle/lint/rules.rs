//! The rules, one function each.

use super::measure::Usage;
use crate::bundle::Error;
use gateway_domain::policy::facts::{FactClass, classes};
use gateway_domain::time::EpochMs;
use gateway_policy::Bundle;
use gateway_policy::bundle::{COMPONENT_FILE, Declaration, Manifest, Severity};
use serde::Serialize;

/// Policies in Rust have some tens of KiB. A larger component contains a runtime, or data that belongs in `data/`, where a
/// reviewer can read it.
const COMPONENT_BYTES_USUAL: usize = 512 << 10;

/// A limit should suffice for an input with twice the cost of the most expensive vector.
const HEADROOM_MIN: u64 = 2;

/// A limit above this multiple of the use does not protect.
const HEADROOM_USUAL: u64 = 1_000;

/// Time that a review and a rollout of a new bundle need: two weeks.
const EXPIRY_NOTICE_MS: u64 = 14 * 24 * 60 * 60 * 1_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The rule that found it.
    pub(crate) rule: &'static str,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// The bundle should not be signed.
    Error,
    /// The author should explain it.
    Warning,
    /// Information.
    Note,
}

pub(super) fn all(bundle: &Bundle, usage: &Usage, now: EpochMs) -> Result<Vec<Finding>, Error> {
    let manifest = bundle.manifest();
    let mut findings = Findings(Vec::new());
    vectors(usage, &mut findings);
    codes(manifest, usage, &mut findings);
    facts(manifest, usage, &mut findings);
    texts(manifest, &mut findings);
    headroom("fuel", manifest.limits.fuel, usage.fuel, &mut findings);
    headroom("memory", manifest.limits.memory_bytes, usage.memory_bytes, &mut findings);
    validity(manifest, now, &mut findings);
    imports(manifest, &mut findings);
    size(bundle.component()?.len(), &mut findings);
    Ok(findings.0)
}

struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, rule: &'static str, text: String) {
        self.0.push(Finding { level: Level::Error, rule, text });
    }

    fn warning(&mut self, rule: &'static str, text: String) {
        self.0.push(Finding { level: Level::Warning, rule, text });
    }

    fn note(&mut self, rule: &'static str, text: String) {
        self.0.push(Finding { level: Level::Note, rule, text });
    }
}

fn vectors(usage: &Usage, findings: &mut Findings) {
    if usage.n_vectors == 0 {
        return findings
            .error("no_vectors", "the bundle has no vectors, which show what the policy does".into());
    }
    for failure in &usage.failures {
        findings.error("vector_fails", format!("{failure}; `bundle test` shows both answers"));
    }
    for fault in &usage.faults {
        findings.error("vector_faults", format!("a vector ends in the fault {fault}, not in a verdict"));
    }
    if !usage.allows {
        findings.warning("never_allows", "no vector is allowed".into());
    }
    if !usage.denies {
        findings.warning("never_denies", "no vector is denied".into());
    }
}

fn codes(manifest: &Manifest, usage: &Usage, findings: &mut Findings) {
    for Declaration { code, .. } in manifest.reasons.iter().chain(&manifest.obligations) {
        if !usage.codes.contains(code) {
            findings.warning("code_not_shown", format!("no vector's answer has the declared code `{code}`"));
        }
    }
}

/// A declared name that ends in `*` is used if any fact with that prefix is read.
fn facts(manifest: &Manifest, usage: &Usage, findings: &mut Findings) {
    for declared in &manifest.facts {
        if classes(declared).contains(&FactClass::Claimed) {
            let text = format!("`{declared}` is the gateway's word, and absent at an admission");
            findings.warning("fact_claimed", text);
        }
        let is_read = |name: &String| match declared.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == declared,
        };
        if !usage.facts.iter().any(is_read) {
            let text = format!("in no vector the policy reads the declared fact `{declared}`");
            findings.warning("fact_not_asked", text);
        }
    }
}

fn texts(manifest: &Manifest, findings: &mut Findings) {
    for Declaration { code, text, severity, remedy } in manifest.reasons.iter().chain(&manifest.obligations) {
        if text.trim().is_empty() {
            findings.error("text_missing", format!("`{code}` has no text to show to people"));
        }
        match severity {
            Severity::Info => {}
            Severity::Warning | Severity::Error => {
                if remedy.trim().is_empty() {
                    findings.warning(
                        "remedy_missing",
                        format!("`{code}` has no remedy: a text that says what to do"),
                    );
                }
            }
        }
    }
}

fn headroom(what: &str, limit: u64, used: u64, findings: &mut Findings) {
    if limit < used.saturating_mul(HEADROOM_MIN) {
        let text = format!(
            "the vectors use {used} of {limit} {what}: an input with {HEADROOM_MIN} times the cost fails"
        );
        findings.warning("headroom_small", text);
    } else if limit > used.saturating_mul(HEADROOM_USUAL) {
        let text = format!("the limit of {limit} {what} is more than {HEADROOM_USUAL} times the {used} used");
        findings.note("headroom_large", text);
    }
}

fn validity(manifest: &Manifest, now: EpochMs, findings: &mut Findings) {
    if let Some(not_before_ms) = manifest.not_before_ms
        && manifest.not_after_ms.is_some_and(|not_after_ms| not_after_ms < not_before_ms)
    {
        findings.error("never_valid", format!("the validity ends before it begins, at {not_before_ms} ms"));
    }
    match manifest.not_after_ms {
        None => findings.note("never_expires", "the bundle stays valid until its signers are revoked".into()),
        Some(end) if end < now.0 => findings.error("expired", format!("the bundle was valid until {end} ms")),
        Some(end) if end < now.0.saturating_add(EXPIRY_NOTICE_MS) => {
            findings.warning(
                "expires_soon",
                format!("the bundle is valid until {end} ms, less than two weeks from now"),
            );
        }
        Some(_) => {}
    }
}

fn size(component_bytes: usize, findings: &mut Findings) {
    if component_bytes > COMPONENT_BYTES_USUAL {
        let text = format!(
            "`{COMPONENT_FILE}` has {component_bytes} bytes; up to {COMPONENT_BYTES_USUAL} are usual"
        );
        findings.warning("size", text);
    }
}

fn imports(manifest: &Manifest, findings: &mut Findings) {
    for import in manifest.capabilities.iter().filter(|import| import.starts_with("wasi:")) {
        let permission = crate::bundle::inspect::permission(import);
        findings.note("wasi", format!("`{import}` is imported: {permission}"));
    }
}

#[cfg(test)]
mod tests;
