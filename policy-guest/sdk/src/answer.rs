//! A builder for verdicts: it allows until a reason denies.

use crate::{Decision, Operand, Quorum, Statement, Verdict};

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

    /// Adds a reason and keeps the decision. `code` must be declared in the bundle's manifest, which has its text for people; the
    /// operands are the values compared, by name.
    pub fn because(&mut self, code: &str, operands: &[(&str, &str)]) {
        self.reasons.push(statement(code, operands));
    }

    /// Denies with a reason.
    pub fn deny(&mut self, code: &str, operands: &[(&str, &str)]) {
        self.decision = Decision::Deny;
        self.because(code, operands);
    }

    /// Adds an obligation: something that must happen next. `code` must be declared in the bundle's manifest.
    pub fn oblige(&mut self, code: &str, operands: &[(&str, &str)]) {
        self.obligations.push(statement(code, operands));
    }

    /// The finished verdict.
    #[must_use]
    pub fn verdict(self, quorum: Quorum) -> Verdict {
        Verdict { decision: self.decision, reasons: self.reasons, obligations: self.obligations, quorum }
    }
}

fn statement(code: &str, operands: &[(&str, &str)]) -> Statement {
    let operand = |(name, value): &(&str, &str)| Operand { name: (*name).into(), value: (*value).into() };
    Statement { code: code.into(), operands: operands.iter().map(operand).collect() }
}
