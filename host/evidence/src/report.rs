//! The report of a verification.

use serde::Serialize;
use std::fmt;

/// A fault in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The JSON pointer to the fault in the document.
    pub at: String,
    /// The fault, as text that follows the pointer.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "/" } else { &self.at };
        write!(f, "{at}: {}", self.what)
    }
}

/// The outcome of a check. A check that does not apply is not in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The check holds; a summary of what was checked.
    Holds(String),
    /// The check fails, with all faults.
    Fails(Vec<Finding>),
    /// The check applies but could not be made, for this reason.
    NotChecked(String),
}

/// The outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every check that applies was made and holds.
    Holds,
    /// At least one check fails.
    Fails,
    /// No check fails, but at least one was not made.
    NotChecked,
}

/// A check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The identifier of the check.
    pub name: &'static str,
    /// The outcome.
    pub status: Status,
}

/// The outcome of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// All checks that apply, in order.
    pub checks: Vec<Check>,
}

impl Report {
    /// The faults of all checks.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.checks.iter().flat_map(|check| match &check.status {
            Status::Fails(findings) => findings.as_slice(),
            Status::Holds(_) | Status::NotChecked(_) => &[],
        })
    }

    /// The outcome over all checks. A report without checks is [`Verdict::NotChecked`].
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let is = |wanted: fn(&Status) -> bool| self.checks.iter().any(|check| wanted(&check.status));
        if is(|status| matches!(status, Status::Fails(_))) {
            Verdict::Fails
        } else if self.checks.is_empty() || is(|status| matches!(status, Status::NotChecked(_))) {
            Verdict::NotChecked
        } else {
            Verdict::Holds
        }
    }

    /// Adds a check: it fails if there are findings, else holds with the summary `seen`.
    pub(crate) fn add(&mut self, name: &'static str, findings: Findings, seen: impl Into<String>) {
        let status =
            if findings.0.is_empty() { Status::Holds(seen.into()) } else { Status::Fails(findings.0) };
        self.checks.push(Check { name, status });
    }

    pub(crate) fn not_checked(&mut self, name: &'static str, why: impl Into<String>) {
        self.checks.push(Check { name, status: Status::NotChecked(why.into()) });
    }
}

/// The faults that one check found so far.
#[derive(Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn of(at: impl Into<String>, what: impl Into<String>) -> Self {
        let mut findings = Self::default();
        findings.add(at, what);
        findings
    }

    pub(crate) fn add(&mut self, at: impl Into<String>, what: impl Into<String>) {
        self.0.push(Finding { at: at.into(), what: what.into() });
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a finding if `actual` differs from `expected`, which `what` names.
    pub(crate) fn same<T: PartialEq + fmt::Display>(
        &mut self,
        at: &str,
        what: &str,
        actual: &T,
        expected: &T,
    ) {
        if actual != expected {
            self.add(at, format!("{what} is `{expected}`, not `{actual}`"));
        }
    }
}
