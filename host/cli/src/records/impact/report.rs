//! Counts and lists what a candidate would change.

use super::super::export;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::policy::compare::{Changes, Impact};
use gateway_domain::policy::{Decision, FactRead, Fault, Outcome, Quorum, Statement, join};
use gateway_domain::time::EpochMs;
use gateway_policy::Evaluator;
use gateway_service::output::{Lines, ToLines};
use gateway_store::RecordedDecision;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The counts. A decision is unknown, uncertain, a fault, the same, or different; a different one can be in several of the counts from
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
    /// Decisions with a fact that may have had another value.
    n_uncertain: u64,
    n_unknown: u64,
    /// Records that do not match their hash.
    n_damaged: u64,
    fuel_median: u64,
    fuel_max: u64,
    /// How much the payments of these decisions pay, by currency and by the change. A payment is in each of its changes once; a preview pays
    /// nothing.
    amounts: BTreeMap<String, BTreeMap<&'static str, Amount>>,
    /// The first decisions that change, may change or are unknown.
    differences: Vec<Listed>,
    #[serde(skip)]
    n_listed_max: usize,
    #[serde(skip)]
    counted: BTreeSet<(OperationId, &'static str)>,
    #[serde(skip)]
    fuel: Vec<u64>,
}

/// What the candidate made of one decision.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    pub(super) impact: Impact,
    /// Without meaning if the impact is unknown.
    pub(super) after: Outcome,
    /// The facts that were not recorded and follow from the events.
    pub(super) computed: Vec<FactRead>,
    /// Those that are settings: as they are today.
    pub(super) assumed: Vec<FactRead>,
}

/// Several payments of a currency.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Amount {
    payments: u64,
    amount_minor: u64,
}

/// One decision that would change.
#[derive(Clone, Debug, Serialize)]
struct Listed {
    decision: String,
    operation_id: Option<OperationId>,
    at_ms: EpochMs,
    client_id: String,
    subject_id: String,
    operation_type: OperationType,
    /// What is paid; null unless it is a payment.
    payment: Option<Paid>,
    recorded: &'static str,
    #[serde(flatten)]
    impact: Impact,
    before: Verdict,
    /// Null if the impact is unknown.
    after: Option<Verdict>,
    computed: Vec<FactRead>,
    /// Settings, as they are today. Not empty if the impact is uncertain.
    assumed: Vec<FactRead>,
}

#[derive(Clone, Debug, Serialize)]
struct Paid {
    amount_minor: i64,
    currency: String,
    recipient: String,
}

#[derive(Clone, Debug, Serialize)]
struct Verdict {
    decision: Decision,
    reasons: Vec<Statement>,
    obligations: Vec<Statement>,
    quorum: Quorum,
    fault: Option<Fault>,
}

impl From<&Outcome> for Verdict {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { decision, reasons, obligations, quorum, fault, .. } = outcome.clone();
        Self { decision, reasons, obligations, quorum, fault }
    }
}

impl Report {
    pub(super) fn new(candidate: &Evaluator, unsigned: bool, n_listed_max: usize) -> Self {
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
            n_uncertain: 0,
            n_unknown: 0,
            n_damaged: 0,
            fuel_median: 0,
            fuel_max: 0,
            amounts: BTreeMap::new(),
            differences: Vec::new(),
            n_listed_max,
            counted: BTreeSet::new(),
            fuel: Vec::new(),
        }
    }

    /// Counts one decision. The fuel of an unknown one is meaningless and is left out.
    pub(super) fn add(&mut self, decision: &RecordedDecision, evaluated: Evaluated) {
        let count = |counter: &mut u64, applies: bool| *counter = counter.saturating_add(u64::from(applies));
        count(&mut self.n_decisions, true);
        count(&mut self.n_damaged, !decision.is_intact);
        let change = evaluated.change();
        match &evaluated.impact {
            Impact::Unknown { .. } => count(&mut self.n_unknown, true),
            Impact::Fault { .. } | Impact::Verdict(_) if !evaluated.assumed.is_empty() => {
                count(&mut self.n_uncertain, true);
            }
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
        if !matches!(evaluated.impact, Impact::Unknown { .. }) {
            self.fuel.push(evaluated.after.fuel_used);
        }
        let Some(change) = change else { return };
        self.add_amount(decision, change);
        if self.differences.len() < self.n_listed_max {
            self.differences.push(Listed::new(decision, evaluated));
        }
    }

    fn add_amount(&mut self, decision: &RecordedDecision, change: &'static str) {
        let (Some(paid), Some(id)) = (Paid::of(&decision.input.intent), decision.operation_id) else {
            return;
        };
        if self.counted.insert((id, change)) {
            let amount = self.amounts.entry(paid.currency).or_default().entry(change).or_default();
            amount.payments = amount.payments.saturating_add(1);
            amount.amount_minor =
                amount.amount_minor.saturating_add(u64::try_from(paid.amount_minor).unwrap_or_default());
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

impl Evaluated {
    /// The change in one word; `None` if there is none.
    fn change(&self) -> Option<&'static str> {
        match &self.impact {
            Impact::Unknown { .. } => Some("unknown"),
            Impact::Fault { .. } | Impact::Verdict(_) if !self.assumed.is_empty() => Some("uncertain"),
            Impact::Fault { .. } => Some("fault"),
            Impact::Verdict(changes) if changes.allow_to_deny => Some("allow_to_deny"),
            Impact::Verdict(changes) if changes.deny_to_allow => Some("deny_to_allow"),
            Impact::Verdict(changes) => (*changes != Changes::default()).then_some("otherwise_different"),
        }
    }
}

impl Paid {
    fn of(intent: &Intent) -> Option<Self> {
        match intent {
            Intent::Payment(payment) => Some(Self {
                amount_minor: payment.amount_minor,
                currency: payment.currency.clone(),
                recipient: payment.to_account.clone(),
            }),
            Intent::AssetAction(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        }
    }
}

impl Listed {
    fn new(decision: &RecordedDecision, evaluated: Evaluated) -> Self {
        let Evaluated { impact, after, computed, assumed } = evaluated;
        let (input, outcome) = (&decision.input, &decision.outcome);
        Self {
            decision: export::title(decision),
            operation_id: decision.operation_id,
            at_ms: decision.at_ms,
            client_id: input.submitter.client_id.clone(),
            subject_id: input.submitter.subject_id.clone(),
            operation_type: input.intent.operation_type(),
            payment: Paid::of(&input.intent),
            recorded: outcome.decision.as_str(),
            before: Verdict::from(outcome),
            after: (!matches!(impact, Impact::Unknown { .. })).then(|| Verdict::from(&after)),
            impact,
            computed,
            assumed,
        }
    }

    fn add_to(&self, lines: &mut Lines) {
        let uncertain = if self.assumed.is_empty() { "" } else { "uncertain: " };
        lines.add(format_args!("{}: {uncertain}{}", self.decision, self.summary()));
        lines.add(format_args!("  submitted by {} ({})", self.subject_id, self.client_id));
        if let Some(Paid { amount_minor, currency, recipient }) = &self.payment {
            lines.add(format_args!("  pays         {amount_minor} {currency} to {recipient}"));
        }
        lines.add(format_args!("  before       {}", self.before));
        if let Some(after) = &self.after {
            lines.add(format_args!("  after        {after}"));
        }
        for fact in &self.computed {
            lines.add(format_args!("  computed     {fact}"));
        }
        for fact in &self.assumed {
            lines.add(format_args!("  assumed      {fact}, as the setting is today"));
        }
    }

    fn summary(&self) -> String {
        match &self.impact {
            Impact::Unknown { facts } => format!("unknown: the candidate reads {}", facts.join(", ")),
            Impact::Fault { kind } => format!("{} -> fault `{}`", self.recorded, kind.as_str()),
            Impact::Verdict(changes) => {
                let Changes { allow_to_deny, deny_to_allow, reasons, obligations, quorum, wording } =
                    *changes;
                let all = [
                    (allow_to_deny, "ALLOW->DENY"),
                    (deny_to_allow, "DENY->ALLOW"),
                    (reasons, "other reasons"),
                    (obligations, "other obligations"),
                    (quorum, "another quorum"),
                    (wording, "other wording"),
                    (*changes == Changes::default(), "the same"),
                ];
                let applying = all.into_iter().filter(|(applies, _)| *applies);
                applying.map(|(_, words)| words).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// `ALLOW, 1 of 2 approvals, 1 of treasurer missing: reason; reason`.
impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { decision, reasons, obligations, quorum, fault: _ } = self;
        write!(f, "{}, {} of {} approvals", decision.as_str(), quorum.n_people(), quorum.required)?;
        for missing in quorum.missing().iter().filter(|missing| missing.group.is_some()) {
            write!(f, ", {missing} missing")?;
        }
        write!(f, ": {}", join(reasons.iter().chain(obligations)))
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
            ("uncertain", self.n_uncertain),
            ("unknown", self.n_unknown),
            ("damaged", self.n_damaged),
            ("fuel median", self.fuel_median),
            ("fuel max", self.fuel_max),
        ];
        for (name, count) in counts {
            lines.add(format_args!("{name:<11} {count}"));
        }
        for (currency, changes) in &self.amounts {
            for (change, Amount { payments, amount_minor }) in changes {
                lines.add(format_args!(
                    "{currency:<11} {change}: {payments} payments, {amount_minor} minor units"
                ));
            }
        }
        self.differences.iter().for_each(|listed| listed.add_to(lines));
    }
}
