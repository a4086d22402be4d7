//! Counts what a candidate would change.

use super::super::export;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::policy::compare::{Changes, Impact};
use gateway_policy::Evaluator;
use gateway_service::output::{Lines, ToLines};
use gateway_store::RecordedDecision;
use serde::Serialize;

/// Maximum number of differences that are listed. The counts cover all decisions.
const LISTED_MAX: usize = 20;

/// The counts. A decision is unknown, a fault, the same, or different; a different one can be in several of the counts from
/// `n_allow_to_deny` to `n_wording`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    candidate: Hex32,
    candidate_id: String,
    /// Whether the candidate's signatures were not checked.
    unsigned: bool,
    n_decisions: u64,
    /// Decisions that stay the same, including the wording.
    n_same: u64,
    n_allow_to_deny: u64,
    n_deny_to_allow: u64,
    n_reasons: u64,
    n_obligations: u64,
    n_quorum: u64,
    n_wording: u64,
    n_faults: u64,
    n_unknown: u64,
    /// Records that do not match their hash.
    n_damaged: u64,
    fuel_median: u64,
    fuel_max: u64,
    differences: Vec<Listed>,
    #[serde(skip)]
    fuel: Vec<u64>,
}

/// One decision that would change.
#[derive(Clone, Debug, Serialize)]
struct Listed {
    decision: String,
    operation_id: Option<OperationId>,
    recorded: &'static str,
    #[serde(flatten)]
    impact: Impact,
}

impl Report {
    pub(super) fn new(candidate: &Evaluator, unsigned: bool) -> Self {
        Self {
            candidate: candidate.bundle_hash(),
            candidate_id: candidate.bundle_id().to_owned(),
            unsigned,
            n_decisions: 0,
            n_same: 0,
            n_allow_to_deny: 0,
            n_deny_to_allow: 0,
            n_reasons: 0,
            n_obligations: 0,
            n_quorum: 0,
            n_wording: 0,
            n_faults: 0,
            n_unknown: 0,
            n_damaged: 0,
            fuel_median: 0,
            fuel_max: 0,
            differences: Vec::new(),
            fuel: Vec::new(),
        }
    }

    /// Counts one decision. The fuel of an unknown one is meaningless and is left out.
    pub(super) fn add(&mut self, decision: &RecordedDecision, impact: &Impact, fuel_used: u64) {
        let count = |counter: &mut u64, applies: bool| *counter = counter.saturating_add(u64::from(applies));
        count(&mut self.n_decisions, true);
        count(&mut self.n_damaged, !decision.is_intact);
        match impact {
            Impact::Unknown { .. } => count(&mut self.n_unknown, true),
            Impact::Fault { .. } => count(&mut self.n_faults, true),
            Impact::Verdict(changes) => {
                count(&mut self.n_same, *changes == Changes::default());
                count(&mut self.n_allow_to_deny, changes.allow_to_deny);
                count(&mut self.n_deny_to_allow, changes.deny_to_allow);
                count(&mut self.n_reasons, changes.reasons);
                count(&mut self.n_obligations, changes.obligations);
                count(&mut self.n_quorum, changes.quorum);
                count(&mut self.n_wording, changes.wording);
            }
        }
        if !matches!(impact, Impact::Unknown { .. }) {
            self.fuel.push(fuel_used);
        }
        if *impact != Impact::Verdict(Changes::default()) && self.differences.len() < LISTED_MAX {
            self.differences.push(Listed {
                decision: export::title(decision),
                operation_id: decision.operation_id,
                recorded: decision.outcome.decision.as_str(),
                impact: impact.clone(),
            });
        }
    }

    /// Computes the fuel figures, which need all decisions.
    pub(super) fn finish(mut self) -> Self {
        self.fuel.sort_unstable();
        self.fuel_median = self.fuel.get(self.fuel.len() / 2).copied().unwrap_or_default();
        self.fuel_max = self.fuel.last().copied().unwrap_or_default();
        self
    }
}

impl ToLines for Report {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("candidate   {} {}", self.candidate_id, self.candidate));
        if self.unsigned {
            lines.add("UNSIGNED    the signatures of this candidate were not checked");
        }
        let counts = [
            ("decisions", self.n_decisions),
            ("same", self.n_same),
            ("ALLOW->DENY", self.n_allow_to_deny),
            ("DENY->ALLOW", self.n_deny_to_allow),
            ("reasons", self.n_reasons),
            ("obligations", self.n_obligations),
            ("quorum", self.n_quorum),
            ("wording", self.n_wording),
            ("faults", self.n_faults),
            ("unknown", self.n_unknown),
            ("damaged", self.n_damaged),
            ("fuel median", self.fuel_median),
            ("fuel max", self.fuel_max),
        ];
        for (name, count) in counts {
            lines.add(format_args!("{name:<11} {count}"));
        }
        for listed in &self.differences {
            lines.add(format_args!("{}: {}", listed.decision, summary(listed)));
        }
    }
}

fn summary(listed: &Listed) -> String {
    match &listed.impact {
        Impact::Unknown { facts } => format!("unknown: the candidate reads {}", facts.join(", ")),
        Impact::Fault { kind } => format!("{} -> fault `{}`", listed.recorded, kind.as_str()),
        Impact::Verdict(changes) => {
            let Changes { allow_to_deny, deny_to_allow, reasons, obligations, quorum, wording } = *changes;
            let all = [
                (allow_to_deny, "ALLOW->DENY"),
                (deny_to_allow, "DENY->ALLOW"),
                (reasons, "other reasons"),
                (obligations, "other obligations"),
                (quorum, "another quorum"),
                (wording, "other wording"),
            ];
            all.into_iter()
                .filter(|(applies, _)| *applies)
                .map(|(_, words)| words)
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}
