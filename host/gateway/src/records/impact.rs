//! `policy impact`: every past decision, asked of a candidate.

mod report;

use super::export::PAGE;
use super::{RecordsError, bundle};
use crate::settings::Settings;
use gateway_domain::policy::Facts;
use gateway_domain::policy::compare::impact;
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_store::{Cursor, Decisions, Recorded};
use report::Report;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// How it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Only the latest so many.
    pub(super) n_last: Option<usize>,
    /// For machines.
    pub(super) json: bool,
    /// Whoever signed the candidate.
    pub(super) unsigned: bool,
}

pub(super) async fn run(
    decisions: &Decisions,
    settings: &Settings,
    folder: &Path,
    wanted: Wanted,
    out: &mut (dyn Write + Send),
) -> Result<ExitCode, RecordsError> {
    let engine = PolicyEngine::new()?;
    let candidate = if wanted.unsigned {
        bundle::unsigned(&engine, folder)?
    } else {
        bundle::signed(&engine, settings, folder)?
    };
    let mut report = Report::new(&candidate, wanted.unsigned);
    match wanted.n_last {
        Some(n_last) => {
            decisions
                .latest(n_last)
                .await?
                .iter()
                .for_each(|decision| ask(&candidate, decision, &mut report));
        }
        None => ask_all(decisions, &candidate, &mut report).await?,
    }
    let report = report.finish();
    if wanted.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask_all(
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
        cursor = page.iter().fold(cursor, |cursor, decision| cursor.after(decision.place));
        page.iter().for_each(|decision| ask(candidate, decision, report));
    }
}

/// Over the recorded facts, and no others: what the candidate asks beside them is unknown.
fn ask(candidate: &Evaluator, decision: &Recorded, report: &mut Report) {
    let facts = Facts::recorded(&decision.outcome.facts);
    let asked = candidate.evaluate(&decision.input.request(), &facts, candidate.fuel_max());
    report.add(decision, &impact(&decision.outcome, &asked.outcome), asked.outcome.fuel_used);
}
