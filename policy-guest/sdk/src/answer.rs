//! Building a verdict: it allows until something denies.

use crate::{Decision, Quorum, Statement, Verdict};

/// A verdict in the making. It starts as ALLOW; one [`Answer::deny`] makes it DENY for good.
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
    /// ALLOW, without reasons or obligations yet.
    #[must_use]
    pub fn new() -> Self {
        Self { decision: Decision::Allow, reasons: Vec::new(), obligations: Vec::new() }
    }

    /// Notes why, without changing the decision. `code` must be declared in the bundle's manifest.
    pub fn because(&mut self, code: &str, detail: impl Into<String>) {
        self.reasons.push(Statement { code: code.into(), detail: detail.into() });
    }

    /// Denies. `detail` should name the operands and what would change the answer.
    pub fn deny(&mut self, code: &str, detail: impl Into<String>) {
        self.decision = Decision::Deny;
        self.because(code, detail);
    }

    /// What has to happen next. `code` must be declared in the bundle's manifest.
    pub fn oblige(&mut self, code: &str, detail: impl Into<String>) {
        self.obligations.push(Statement { code: code.into(), detail: detail.into() });
    }

    /// The verdict.
    #[must_use]
    pub fn verdict(self, quorum: Quorum) -> Verdict {
        Verdict { decision: self.decision, reasons: self.reasons, obligations: self.obligations, quorum }
    }
}
