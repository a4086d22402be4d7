//! `policy impact`: evaluates every past decision with a candidate.

mod report;

use super::export::PAGE;
use super::{Impact, RecordsError, Trust, bundle};
use gateway_domain::policy::{Facts, compare};
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_service::output::{self, Lines, ToLines};
use gateway_store::{Cursor, Decisions, RecordedDecision};
use report::Report;
use std::process::ExitCode;

pub(super) async fn run(
    decisions: &Decisions,
    trust: &Trust<'_>,
    arguments: &Impact,
) -> Result<ExitCode, RecordsError> {
    let engine = PolicyEngine::new()?;
    let candidate = if arguments.unsigned {
        bundle::load_unverified(&engine, &arguments.candidate)?
    } else {
        bundle::load_verified(&engine, trust, &arguments.candidate)?
    };
    let mut report = Report::new(&candidate, arguments.unsigned);
    match arguments.last {
        Some(n_last) => {
            decisions
                .latest(n_last)
                .await?
                .iter()
                .for_each(|decision| evaluate(&candidate, decision, &mut report));
        }
        None => evaluate_all(decisions, &candidate, &mut report).await?,
    }
    let report = report.finish();
    let mut lines = Lines::new();
    if arguments.json {
        lines.add_json(&report)?;
    } else {
        report.add_to(&mut lines);
    }
    output::print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn evaluate_all(
    decisions: &Decisions,
    candidate: &Evaluator,
    report: &mut Report,
) -> Result<(), RecordsError> {
    let mut cursor = Cursor::default();
    loop {
        let page = decisions.page(cursor, PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        cursor = page.iter().fold(cursor, |cursor, decision| cursor.after(decision));
        page.iter().for_each(|decision| evaluate(candidate, decision, report));
    }
}

/// Evaluates with the recorded facts only. If the candidate reads another fact, the impact is unknown.
fn evaluate(candidate: &Evaluator, decision: &RecordedDecision, report: &mut Report) {
    let facts = Facts::of_outcome(&decision.outcome);
    let answer = candidate.evaluate(&decision.input.request(), &facts, candidate.fuel_max());
    report.add(decision, &compare::impact(&decision.outcome, &answer), answer.fuel_used);
}
