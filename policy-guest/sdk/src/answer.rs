//! A builder for verdicts: it allows until a reason denies.

use crate::{Decision, Quorum, Statement, Verdict};

/// A verdict under construction. It starts as ALLOW; one call of [`Answer::deny`] makes it DENY, and nothing reverts that.
#[derive(Clone, Debug)]
pub struct Answer {
    decision: Decision,
    reasons: Vec<Statement>,
    obligations: Vec<Statement>,
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// ALLOW, without reasons or obligations.
    #[must_use]
    pub fn new() -> Self {
        Self { decision: Decision::Allow, reasons: Vec::new(), obligations: Vec::new() }
    }

    /// Adds a reason and keeps the decision. `code` must be declared in the bundle's manifest.
    pub fn because(&mut self, code: &str, detail: impl Into<String>) {
        self.reasons.push(Statement { code: code.into(), detail: detail.into() });
    }

    /// Denies with a reason. `detail` should name the values compared, and what would change the verdict.
    pub fn deny(&mut self, code: &str, detail: impl Into<String>) {
        self.decision = Decision::Deny;
        self.because(code, detail);
    }

    /// Adds an obligation: something that must happen next. `code` must be declared in the bundle's manifest.
    pub fn oblige(&mut self, code: &str, detail: impl Into<String>) {
        self.obligations.push(Statement { code: code.into(), detail: detail.into() });
    }

    /// The finished verdict.
    #[must_use]
    pub fn verdict(self, quorum: Quorum) -> Verdict {
        Verdict { decision: self.decision, reasons: self.reasons, obligations: self.obligations, quorum }
    }
}
