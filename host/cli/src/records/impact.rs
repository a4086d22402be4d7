//! `policy impact`: evaluates every past decision with a candidate.

mod history;
mod report;

use super::export::PAGE;
use super::{Impact, RecordsError, Trust, bundle};
use gateway_domain::policy::compare;
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::{FactRead, Facts, Outcome};
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_service::output::{self, Lines, ToLines};
use gateway_store::{Cursor, Decisions, RecordedDecision};
use history::{History, Standing};
use report::{Evaluated, Report};
use std::process::ExitCode;

pub(super) async fn run(
    decisions: &Decisions,
    trust: &Trust<'_>,
    rules: &Rules,
    arguments: &Impact,
) -> Result<ExitCode, RecordsError> {
    let engine = PolicyEngine::new()?;
    let candidate = if arguments.unsigned {
        bundle::load_unverified(&engine, &arguments.candidate)?
    } else {
        bundle::load_verified(&engine, trust, &arguments.candidate)?
    };
    let report = Report::new(&candidate, arguments.unsigned, arguments.list);
    let mut past = Past { decisions, rules, candidate, history: None, report };
    match arguments.last {
        Some(n_last) => {
            for decision in decisions.latest(n_last).await? {
                past.evaluate(&decision).await?;
            }
        }
        None => past.evaluate_all().await?,
    }
    let report = past.report.finish();
    let mut lines = Lines::new();
    if arguments.json {
        lines.add_json(&report)?;
    } else {
        report.add_to(&mut lines);
    }
    output::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// The past decisions, and what the candidate would have changed.
struct Past<'a> {
    decisions: &'a Decisions,
    /// The deployment's rules of today.
    rules: &'a Rules,
    candidate: Evaluator,
    /// Read once a decision needs it.
    history: Option<History>,
    report: Report,
}

impl Past<'_> {
    async fn evaluate_all(&mut self) -> Result<(), RecordsError> {
        let mut cursor = Cursor::default();
        loop {
            let page = self.decisions.page(cursor, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            for decision in &page {
                cursor = cursor.after(decision);
                self.evaluate(decision).await?;
            }
        }
    }

    /// Evaluates with the recorded facts and, if the candidate reads others, with those that follow from the history.
    async fn evaluate(&mut self, decision: &RecordedDecision) -> Result<(), RecordsError> {
        let recorded = &decision.outcome;
        let after = self.run(decision, &Facts::of_outcome(recorded));
        let impact = compare::impact(recorded, &after);
        if !matches!(impact, compare::Impact::Unknown { .. }) {
            let after = raised(after, &recorded.facts);
            self.report.add(decision, Evaluated { impact, after, computed: Vec::new(), assumed: Vec::new() });
            return Ok(());
        }
        let history = match self.history.take() {
            Some(history) => history,
            None => History::read(self.decisions).await?,
        };
        let after = self.run(
            decision,
            &history.facts(decision, self.rules, |parties| self.candidate.read_parties(parties)),
        );
        self.report.add(decision, evaluated(decision, after));
        self.history = Some(history);
        Ok(())
    }

    fn run(&self, decision: &RecordedDecision, facts: &Facts) -> Outcome {
        self.candidate.evaluate(&decision.input.request(), facts, self.candidate.fuel_max())
    }
}

/// The outcome with the deployment's minimum of approvals, if it is among the facts: the recorded outcome has it too.
fn raised(after: Outcome, known: &[FactRead]) -> Outcome {
    let minimum = known.iter().find(|fact| fact.name == "deployment.required_approvals");
    let minimum = minimum.and_then(|fact| fact.value.as_deref()?.parse().ok());
    after.raise_quorum_to(minimum.unwrap_or_default())
}

/// What the candidate decided, with facts that follow from the history beside those recorded.
fn evaluated(decision: &RecordedDecision, after: Outcome) -> Evaluated {
    let mut known = decision.outcome.clone();
    let (mut computed, mut assumed) = (Vec::new(), Vec::new());
    for fact in &after.facts {
        if known.facts.iter().any(|recorded| recorded.name == fact.name) {
            continue;
        }
        match history::standing(&fact.name, decision) {
            Standing::Computed => computed.push(fact.clone()),
            Standing::Uncertain => assumed.push(fact.clone()),
            Standing::Unknown => continue,
        }
        known.facts.push(fact.clone());
    }
    Evaluated {
        impact: compare::impact(&known, &after),
        after: raised(after, &known.facts),
        computed,
        assumed,
    }
}
